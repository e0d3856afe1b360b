"""Communicators of a GPU inside torch's own ProcessGroup; there is no other face than the C++ one here."""

from __future__ import annotations

from prism.gpu.cuda.communicator import CudaCommunicator as Communicator
from prism.gpu.group.native_group import Work, group
from prism.gpu.group.work import Batch, Operation

__all__ = ["Communicator", "group", "wrap"]


def wrap(operation: Operation | Batch) -> Work:
    """The work object of an operation; its future knows the devices, so that who takes from it waits for the stream."""
    work = Work(operation, sorted({one.get_device() for one in operation.outputs if one.is_cuda}))
    operation.completion = work
    return work
