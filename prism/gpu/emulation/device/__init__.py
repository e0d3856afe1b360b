"""An emulation whose sandbox ranks run on GPUs: torch's own NCCL group over an engine on the device."""
