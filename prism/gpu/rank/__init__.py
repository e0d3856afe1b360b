"""Inside a rank's process: its life, and its line to the worker."""
