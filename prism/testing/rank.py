"""What each rank of a test runs: the test's function, whose value it leaves where the test finds it."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
import torch.distributed as dist


class Call(NamedTuple):
    """A function with its arguments; with a backend its ranks are in a process group before it begins."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    backend: str | None


def value_path(folder: Path, rank: int) -> Path:
    """Where a rank leaves its value."""
    return folder / f"{rank}.value"


def call_as_rank(call_file: str, folder: str) -> None:
    """Call the function as the rank that the environment says."""
    call = Call(*pickle.loads(Path(call_file).read_bytes()))
    if call.backend is not None:
        dist.init_process_group(call.backend)
    value = call.function(*call.args, **call.kwargs)
    if call.backend is not None and dist.is_initialized():
        dist.destroy_process_group()
    value_path(Path(folder), int(os.environ["RANK"])).write_bytes(_pickled(value))


def _pickled(value: Any) -> bytes:
    try:
        return bytes(cloudpickle.dumps(value))
    except Exception as error:
        what = f"{type(value).__name__} cannot leave its process ({type(error).__name__}: {error})"
        raise TypeError(f"a function of prism_world returned what cannot be given back: {what}") from None
