"""The memory that NCCL's communicators take, against what emulation reserves in their place.

    python -m benchmarks.communicator_memory [--ranks 2,8]

Each table is of a real run under unmodified NCCL, along rings and without NVLS: a rank on each GPU where there are as
many, else several on each, which NCCL takes for hosts. Then what joins them lies in host memory, and only `made`,
what a communicator takes by itself, compares. `estimated` is prism.core.emulation.communicator_memory; below it the
same with the channels that NCCL's log tells.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks.gpu_ranks import environments, printed
from prism.core.emulation.communicator_memory import ON_ONE_NODE, ON_SEVERAL, Channels, made, messages, ring

PROGRAM = Path(__file__).parent / "programs" / "communicator_memory.py"
LIMIT_S = 120.0
MIB = 1 << 20
CHANNELS = re.compile(r"(\d+) coll channels, .*?(\d+) p2p channels, (\d+) p2p channels per peer")
SLICE = re.compile(r"P2P Chunksize set to (\d+)")


class Taken(NamedTuple):
    """Bytes that a rank takes for a communicator, for its rings, for messages with all others."""

    made: int
    rings: int
    messages: int


def estimated(size: int, on_node: int, channels: Channels) -> Taken:
    """What emulation reserves for rank 0, so many members being on its node."""
    here = [peer < on_node for peer in range(1, size)]
    return Taken(made(size, channels), ring(on_node, on_node < size, channels), messages(here, channels))


def chosen(log: str) -> Channels | None:
    """What NCCL's log says of the first communicator; None for nothing."""
    channels, chunk = CHANNELS.search(log), SLICE.search(log)
    if channels is None or chunk is None:
        return None
    return Channels(int(channels[1]), int(channels[2]), int(channels[3]), int(chunk[1]))


def measured(size: int, logs: Path) -> tuple[Taken, str]:
    """What the ranks of a run take at most, and NCCL's log."""
    more = {"NCCL_ALGO": "ring", "NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": str(logs / "%p")}
    places = [place | more for place in environments(size, torch.cuda.device_count())]
    lines = [line for text in printed([PROGRAM], places, LIMIT_S) for line in text.splitlines()]
    told = [Taken(**json.loads(line.removeprefix("MEMORY "))) for line in lines if line.startswith("MEMORY ")]
    most = Taken(*(max(column) for column in zip(*told, strict=True)))
    return most, "\n".join(log.read_text() for log in sorted(logs.iterdir()))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=lambda text: [int(one) for one in text.split(",")], default=[2, 8])
    for size in parser.parse_args().ranks:
        with tempfile.TemporaryDirectory() as logs:
            show(size, *measured(size, Path(logs)))


def show(size: int, taken: Taken, log: str) -> None:
    """A table of MiB."""
    together = size <= torch.cuda.device_count()
    on_node, channels = (size, ON_ONE_NODE) if together else (1, ON_SEVERAL)
    rows = {"measured": taken, "estimated": estimated(size, on_node, channels)}
    if (seen := chosen(log)) is not None:
        rows[f"seen {tuple(seen)}"] = estimated(size, on_node, seen)
    where = f"on {size} GPUs" if together else f"on {torch.cuda.device_count()} GPUs, as hosts of their own"
    print(f"\n{size} ranks {where}\n{'':32}{'made':>8}{'rings':>8}{'messages':>10}")
    for name, row in rows.items():
        print(f"{name:32}{row.made / MIB:>8.0f}{row.rings / MIB:>8.0f}{row.messages / MIB:>10.0f}", flush=True)


if __name__ == "__main__":
    main()
