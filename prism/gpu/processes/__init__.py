"""The worker's side: its processes, from the fork server to the last rank, and what it has to do with other hosts."""
