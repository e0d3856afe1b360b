"""Communicators of an emulation on GPUs inside torch's own ProcessGroup, with the NCCL groups that carry them out."""

from __future__ import annotations

from typing import Any

from prism.gpu._backend import Backend
from prism.gpu.cuda.face import wrap
from prism.gpu.emulation.device.communicator import DeviceCommunicator as Communicator

__all__ = ["Communicator", "group", "wrap"]


def group(communicator: Communicator, options: Any = None, backend_options: Any = None) -> Any:
    """What torch registers as the backend of a group; `options` are torch's, `backend_options` the program's."""
    carrier = communicator.carrier(backend_options, options and options.timeout) if communicator.carried else None
    return Backend(communicator, communicator.rank, len(communicator.ranks), carrier)
