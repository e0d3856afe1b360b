"""What PRISM takes on the host for a post and its wait in an emulation on a GPU, beside torch's own for the same.

    python -m benchmarks.sandbox_posts [--rounds 7] [--posts 2000] [--depth 12]

The device and NCCL are stand-ins that do nothing (tests/gpu), so that all that is timed is PRISM's; beside it an
all_reduce of a gloo group of one. Both are called through so many frames, as programs do.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

from prism.gpu.emulation.device.link import DeviceLink
from tests.gpu.test_paced_link import OpenLink, Stage, step


class PlainLink(DeviceLink):
    """A link whose process outlives its line, and that times nothing."""

    def _read(self) -> None:
        self._serve()


def stage_of(kind: type[DeviceLink], posts: int) -> Stage:
    """A rank with a link of that kind, which will post so often; what it says is read and dropped."""
    stage = Stage(Path(tempfile.mkdtemp()), [step() for _ in range(posts)], kind)
    (line,) = (each for each in vars(stage.line).values() if isinstance(each, socket.socket))
    line.settimeout(None)
    threading.Thread(target=lambda: [None for _ in iter(lambda: line.recv(1 << 16), b"")], daemon=True).start()
    return stage


def through(depth: int, call: Callable[[], None]) -> None:
    """Call it from so many frames."""
    if depth:
        through(depth - 1, call)
    else:
        call()


def microseconds(call: Callable[[], None], times: int, depth: int) -> float:
    """Of one call."""
    begin = time.perf_counter()
    for _ in range(times):
        through(depth, call)
    return (time.perf_counter() - begin) / times * 1e6


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--posts", type=int, default=2000, help="of a round")
    parser.add_argument("--depth", type=int, default=12, help="frames")
    options = parser.parse_args()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    tensor = torch.zeros(1)
    kinds = {"emulated": PlainLink, "paced": OpenLink}
    stages = {name: stage_of(kind, options.rounds * options.posts) for name, kind in kinds.items()}

    def ours(stage: Stage) -> None:
        told = stage.all_reduce(tensor, in_line=False)
        told.begun()
        told.wait()
        told.go_on()

    def theirs() -> None:
        work = dist.all_reduce(tensor, async_op=True)
        assert work is not None
        work.wait()

    calls = {"gloo, of one": theirs} | {name: (lambda stage=stage: ours(stage)) for name, stage in stages.items()}
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(options.rounds):
        for name, call in calls.items():
            found[name].append(microseconds(call, options.posts, options.depth))
    plain = statistics.median(found["gloo, of one"])
    for name, times in found.items():
        middle = statistics.median(times)
        print(
            f"{name:>14}: {middle:6.1f} us a post and wait ({min(times):.1f} to {max(times):.1f}), {middle / plain:.2f}"
        )
    os._exit(0)  # the links' threads wait for ever


if __name__ == "__main__":
    main()
