"""Whether processes that use a GPU do so through NVIDIA's multi-process service, by what it leaves in its directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

DIRECTORY = "/tmp/nvidia-mps"
"""Where the service is, unless the environment says otherwise."""
NUMBER = "nvidia-cuda-mps-control.pid"


def serves(environment: Mapping[str, str]) -> bool:
    """Whether a service runs that a process with these variables would find."""
    file = Path(environment.get("CUDA_MPS_PIPE_DIRECTORY") or DIRECTORY) / NUMBER
    try:
        number = int(file.read_text().strip(" \n\0"))
    except (OSError, ValueError):
        return False
    return Path(f"/proc/{number}").is_dir()
