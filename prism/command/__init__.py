"""The command line, and what it says to a person."""
