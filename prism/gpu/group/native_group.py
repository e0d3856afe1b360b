"""The communicator inside torch's own ProcessGroup, through the C++ backend: nothing of torch is missing."""

from __future__ import annotations

from typing import Any

import torch  # loads the libraries that the extension links to

from prism.gpu._backend import TORCH, Backend, Work
from prism.gpu.group.communicator import Communicator
from prism.gpu.group.work import Batch, Operation

__all__ = ["Communicator", "Work", "group", "wrap"]

if torch.__version__.partition("+")[0] != TORCH:
    raise ImportError(f"prism.gpu._backend was built for torch {TORCH}, and this is torch {torch.__version__}")


def wrap(operation: Operation | Batch) -> Work:
    """The work object of an operation; it holds the future that C++ callers wait on."""
    work = Work(operation)
    operation.completion = work
    return work


def group(communicator: Communicator, *_: Any) -> Any:
    """What torch registers as the backend of a process group."""
    return Backend(communicator, communicator.rank, len(communicator.ranks))
