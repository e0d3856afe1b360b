"""An emulation beside the devices: sandbox ranks in wall time, and assistants that play the virtual ones."""
