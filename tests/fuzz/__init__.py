"""What strangers can hand to PRISM (messages, traces, scenario files), fuzzed: `python -m tests.fuzz --seconds 600`."""
