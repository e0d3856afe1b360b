"""A job whose operations and marks tell when they come: what its stream takes from each to the next, without PRISM.

    python segmented.py OUT JOB [ARGUMENT...]     under the variables of torchrun

Its groups are the backend's own behind a face that passes each call on, and puts an event into the program's stream
before it. OUT.<rank>.json gets `iterations`: for each that a step of the first optimizer ended, the ms up to each post
and to its end; and `posting`: by name of the call the us for which the backend's post held the host, one for each.
Without a GPU the host's clock counts in both.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

CALLS = (
    "allreduce", "allreduce_coalesced", "reduce", "broadcast", "allgather", "_allgather_base", "allgather_coalesced",
    "gather", "scatter", "reduce_scatter", "_reduce_scatter_base", "alltoall_base", "alltoall", "barrier", "send",
    "recv",
)  # fmt: skip


class Segments:
    """What is told, in the order in which it comes."""

    def __init__(self) -> None:
        self.posting: dict[str, list[float]] = {}
        self._steps: list[tuple[Any, bool]] = []  # when, and whether an iteration ends there
        self._optimizer: Optimizer | None = None

    def step(self, ends: bool = False) -> None:
        """The stream comes to a post, or to the end of an iteration."""
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            moment = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            moment.record()
        else:
            moment = time.perf_counter()
        self._steps.append((moment, ends))

    def stepped(self, optimizer: Optimizer, *_: Any) -> None:
        """An optimizer has stepped."""
        self._optimizer = self._optimizer or optimizer
        if optimizer is self._optimizer:
            self.step(ends=True)

    def iterations(self) -> list[list[float]]:
        """Their segments in ms; what comes before the first end and after the last is left out."""
        found: list[list[float]] = []
        before: Any = None
        for moment, ends in self._steps:
            if before is not None:
                found[-1].append(_between(before, moment))
            if ends:
                found.append([])
            if found:
                before = moment
        return found[:-1]


def _between(before: Any, after: Any) -> float:
    if isinstance(before, float):
        return (float(after) - before) * 1e3
    return float(before.elapsed_time(after))


class Face(dist.ProcessGroup):  # type: ignore[misc]
    """A backend, as torch's own callers see a process group."""

    def __init__(self, backend: Any, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self.backend = backend
        self._name = ""

    def getBackendName(self) -> str:
        return "segmented"

    def getGroupName(self) -> str:
        return self._name

    @property
    def group_name(self) -> str:
        return self._name

    def _set_group_name(self, name: str) -> None:
        self._name = name

    def _get_backend(self, device: torch.device) -> Any:
        return self

    def name(self) -> str:
        return str(self.backend.name())

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cuda" if torch.cuda.is_available() else "cpu")]

    supports_splitting = False

    def shutdown(self) -> None:
        self.backend.shutdown()

    def abort(self) -> None:
        self.backend.abort()


def passed_on(name: str, segments: Segments) -> Callable[..., Any]:
    """The method of a face."""

    def method(self: Face, *arguments: Any, **named: Any) -> Any:
        segments.step()
        begun = time.perf_counter()
        work = getattr(self.backend, name)(*arguments, **named)
        segments.posting.setdefault(name, []).append((time.perf_counter() - begun) * 1e6)
        return work

    return method


def install(segments: Segments) -> None:
    """From here on every group has a face."""
    for name in CALLS:
        setattr(Face, name, passed_on(name, segments))
    asked = "gloo"

    def make(options: Any, _: Any) -> Face:
        kind = dist.ProcessGroupNCCL if asked == "nccl" else dist.ProcessGroupGloo
        return Face(kind(options.store, options.group_rank, options.group_size), options.group_rank, options.group_size)

    dist.Backend.register_backend("segmented", make, extended_api=True, devices=["cpu", "cuda"])
    plain = c10d.BackendConfig.__init__

    def configure(config: Any, backend: Any) -> None:
        nonlocal asked
        plain(config, backend)
        asked = "nccl" if "nccl" in config.device_backend_map.values() else "gloo"
        config.device_backend_map = {device: dist.Backend("segmented") for device in config.device_backend_map}

    c10d.BackendConfig.__init__ = configure  # type: ignore[method-assign]
    for name in ("gloo", "nccl"):
        dist.Backend.backend_type_map[name] = dist.ProcessGroup.BackendType.CUSTOM
    register_optimizer_step_post_hook(segments.stepped)


def main() -> None:
    """One rank."""
    out, *sys.argv = sys.argv[1:]
    segments = Segments()
    install(segments)
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.synchronize()
        told = {"iterations": segments.iterations(), "posting": segments.posting}
        Path(f"{out}.{os.environ.get('RANK', '0')}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
