"""Process groups as torch sees them: communicators, works, arguments, and the one order of sums."""
