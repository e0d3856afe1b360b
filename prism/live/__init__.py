"""How a run goes, for those who wait for it: on a terminal, in plain lines, or on a local page."""
