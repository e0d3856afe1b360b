"""An emulation on several hosts, as the coordinator sees it: who is where, what each gets, and what comes back."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from prism.errors import RunError
from prism.member import Member
from prism.net.messages import AskTime, Emulating, FromCoordinator, Laid, Spread, Time
from prism.net.payloads import CHUNK

ASKED = 15
"""How often a worker is asked for its time; the answer that came fastest counts."""

Tell = Callable[[str, FromCoordinator], None]
Expect = Callable[[type[Time]], Awaitable[tuple[str, object]]]


def spread(emulation: Emulating, members: Mapping[str, Member], places: Mapping[int, int]) -> Spread:
    """Sandbox ranks are on the workers of `places`, their assistants on the others, in turns. Raises RunError."""
    names = list(members)
    closed = [member.host for member in members.values() if not member.gateway]
    if closed:
        raise RunError(
            f"emulate needs prism.gpu._pruned, which is not built on {', '.join(closed)}; run `make ext` there"
        )
    taken = {names[places[rank]] for rank in emulation.sandbox}
    others = [name for name in names if name not in taken] or names
    return Spread(
        token=secrets.token_bytes(32),
        gateways={name: member.gateway for name, member in members.items()},
        sandbox={rank: names[places[rank]] for rank in emulation.sandbox},
        assistants=tuple(others[place % len(others)] for place in range(len(emulation.sandbox))),
    )


async def clocks(names: Sequence[str], tell: Tell, expect: Expect) -> dict[str, int]:
    """By how many ns this host's monotonic clock is ahead of each worker's, to half the way there and back."""
    found = {}
    for name in names:
        best = None
        for _ in range(ASKED):
            asked = time.monotonic_ns()
            tell(name, AskTime())
            _, answer = await expect(Time)
            heard = time.monotonic_ns()
            assert isinstance(answer, Time)
            if best is None or heard - asked < best[0]:
                best = (heard - asked, (asked + heard) // 2 - answer.now)
        found[name] = best[1] if best is not None else 0
    return found


def pieces(room: Path) -> Iterator[Laid]:
    """What lies in a directory, to be laid out elsewhere; the board and the FIFOs are each host's own."""
    yield Laid()
    for path in sorted(path for path in room.rglob("*") if path.is_file() and path.parent != room):
        data = path.read_bytes()
        for at in range(0, max(len(data), 1), CHUNK):
            yield Laid(file=str(path.relative_to(room)), at=at, data=data[at : at + CHUNK])


def take_in(room: Path, piece: Laid) -> None:
    """Take in the board of another host: every cell has one writer, and grows from 0."""
    descriptor = os.open(room / os.path.basename(piece.file), os.O_RDWR)
    try:
        here = np.frombuffer(os.pread(descriptor, len(piece.data), piece.at), "<i8")
        os.pwrite(descriptor, np.maximum(here, np.frombuffer(piece.data, "<i8")[: len(here)]).tobytes(), piece.at)
    finally:
        os.close(descriptor)
