"""An emulation on several hosts, as the coordinator sees it: who is where, what each gets, and what comes back."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from prism.crew.member import Member
from prism.errors import ProtocolError, RunError
from prism.net.messages import AskTime, Emulating, FromCoordinator, Laid, Spread, Time
from prism.net.payloads import CHUNK
from prism.net.schedule import BOARD

CELL = 8
"""Bytes of a cell of the board."""
ASKED = 15
"""How often a worker is asked for its time; the answer that came fastest counts."""

Tell = Callable[[str, FromCoordinator], None]
Expect = Callable[[type[Time]], Awaitable[tuple[str, object]]]


def spread(emulation: Emulating, members: Mapping[str, Member], places: Mapping[int, int], lanes: int = 1) -> Spread:
    """Sandbox ranks are on the workers of `places`, their assistants on the others, in turns. Raises RunError.

    Those come first on which most lies of what assistants put in. Assistants that have to be are beside the sandbox.
    Where there are hosts for several assistants a rank, each has so many, but no more than one has `lanes` at most.
    """
    names = list(members)
    closed = [member.host for member in members.values() if not member.gateway]
    if closed:
        raise RunError(
            "emulate needs prism.gpu._pruned and libsodium, 1.0.19 or later, and has not both on "
            f"{', '.join(closed)}; run `make ext` there, and install pyzmq from its wheel, which has libsodium"
        )
    taken = {names[places[rank]] for rank in emulation.sandbox}
    others = [name for name in names if name not in taken] or names
    beside = [name for name in names if name in taken]
    others = sorted(others if emulation.apart else beside, key=lambda name: -emulation.held.get(name, 0))
    ranks = len(emulation.sandbox)
    each = max(1, min(lanes, len(others) // ranks)) if emulation.apart else 1
    return Spread(
        token=secrets.token_bytes(32),
        gateways={name: member.gateway for name, member in members.items()},
        sandbox={rank: names[places[rank]] for rank in emulation.sandbox},
        assistants=tuple(others[place % len(others)] for place in range(ranks * each)),
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
    """Take in the board of another host: every cell has one writer, and grows from 0.

    Raises ProtocolError for what is no piece of the board that lies in `room`.
    """
    board = room / BOARD
    length = board.stat().st_size if board.exists() else 0
    end = piece.at + len(piece.data)
    if piece.file != BOARD or piece.at < 0 or end > length or piece.at % CELL or len(piece.data) % CELL:
        raise ProtocolError(f"bytes {piece.at} to {end} of {piece.file!r} are no cells of the emulation's board")
    with board.open("r+b") as file:
        here = os.pread(file.fileno(), len(piece.data), piece.at)
        os.pwrite(file.fileno(), np.maximum(*(np.frombuffer(one, "<i8") for one in (here, piece.data))), piece.at)
