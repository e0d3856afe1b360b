"""What fuzzing starts from: right messages, traces and scenarios, the same in every run."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from prism.core.calls import Ref
from prism.core.events import Exited, Launched
from prism.core.instructions import Answer, Kill, Launch, Run
from prism.core.prismtrace import Trace, encode
from prism.gpu.processes.birth import Birth, Born, Failed, Gone, Introduction, Ready, Unborn
from prism.net.channel import Codec
from prism.net.frames import pack
from prism.net.keys import make_keys
from prism.net.messages import (
    Alive,
    Broken,
    Dismiss,
    Dismissed,
    Emulating,
    FromWorker,
    Goodbye,
    Hello,
    Misfortune,
    Order,
    Prepared,
    Program,
    Report,
    Setup,
)
from prism.net.peer import Chunk, Fetch, Missing
from tests.core.jobs import data_parallel, expert_parallel, pipeline

SCENARIOS = Path(__file__).parents[2] / "scenarios"
SETUP = Setup(
    program=Program(script="/a.py", args=("1",), env={"A": "b"}, preload=("torch",)),
    world_size=8, running=8, ranks_per_node=8, semantics="auto", payloads="/p", logs="/l",
    faults=(Misfortune(1, 2, "slow", 3, 1.5),), emulation=Emulating("/d", (1, 2), 1 << 20),
)  # fmt: skip


def messages() -> Iterator[bytes]:
    """Messages behind the number of what decodes them (tests.fuzz.targets.messages)."""
    report = Report(events=(Exited(rank=1, code=0), Launched(rank=2, pid=3)))
    up = (Hello(worker="w", pid=1), Prepared(), Broken(reason="r"), Alive(), Dismissed(), report)
    down = (SETUP, Order(instructions=(Launch(rank=1), Run(rank=2))), Dismiss(), Goodbye())
    for number, kinds in enumerate((up, down)):
        for message in kinds:
            yield bytes([number]) + b"".join(Codec[Any, Any](FromWorker).outgoing().parts(message))
    frames = (
        (Launched(rank=1, pid=2), Introduction(rank=1, pid=2), Exited(rank=1, code=-9)),
        (Launch(rank=1), Kill(rank=2), Answer(rank=3, call=1, value=b"v")),
        (Ready(), Failed("f", "t"), Born(1, 2), Unborn(1, "u"), Gone(1, -9)),
        (Birth(1, "s1", "/s", SETUP),),
    )
    for number, parts in enumerate(frames, 2):
        yield bytes([number]) + b"".join(pack(part) for part in parts)
    yield b"\7" + msgspec.json.encode(make_keys()[1])


def traces() -> Iterator[bytes]:
    """Small traces."""
    for graph in (expert_parallel(2, 1, 1), data_parallel(2), pipeline(2, 2)):
        yield b"".join(encode(Trace(graph, "1", "s")))


def scenarios() -> Iterator[bytes]:
    """The scenarios that come with PRISM, and an override."""
    for path in sorted(SCENARIOS.glob("*.yaml")):
        if ".expected" not in path.name:
            yield path.read_bytes()
    yield b"world.size=4\0prism: 1\nname: a\nprogram: {script: a.py}\nworld: {size: 2}\n"


def ferries() -> Iterator[bytes]:
    """A wish and two answers, behind the number of what hears them (tests.fuzz.targets.ferries)."""
    wish = Fetch(1, Ref("w.s1-0-input", 8, 20))
    for number, said in ((0, wish), (1, Chunk(1, bytes(100))), (1, Missing(1, "gone"))):
        yield bytes([number]) + b"".join(Codec[Any, Any](Fetch).outgoing().parts(said))


def rooms() -> Iterator[bytes]:
    """A rank that asks twice, in pieces of eleven bytes, and one that is not there."""
    yield b"\x0b" + struct.pack("=QQQQQ", 3, 1 << 33, 5, 7, 8)
    yield b"\xff" + struct.pack("=QQQ", 9, 1, 1)


TARGETS = {"messages": messages, "traces": traces, "scenarios": scenarios, "ferries": ferries, "rooms": rooms}


def words(target: str) -> Iterator[str]:
    """What inputs are put together from: the keys and words of scenarios; nothing for the others."""
    if target == "scenarios":
        text = "".join(seed.decode() for seed in scenarios())
        yield from sorted(set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*:?|[0-9][0-9A-Za-z./]*|[\[\]{}&*!|>,-]", text)))
        yield from ("&a", "*a", "<<:", "!!int", "1e999", "0x10", "99999999999999999999", "GB/s", "?", "null")


def write_seeds(target: str, folder: Path) -> None:
    """Write a target's seeds into a folder, one a file."""
    for number, seed in enumerate(TARGETS[target]() if target in TARGETS else [b"Q"]):
        (folder / f"seed-{number}").write_bytes(seed)
