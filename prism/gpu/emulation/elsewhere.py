"""A worker's part in an emulation on several hosts: a copy of what its processes share, and what crosses the border.

The coordinator sends the schedule. Payloads that assistants here will need, or sandbox ranks that get recorded results,
are brought first, and the copy of the schedule names those of this host: the processes themselves know one host.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from prism.core.calls import Ref
from prism.core.graph import Int64
from prism.core.record import PostStep
from prism.core.stage.keeping import REDUCTIONS
from prism.errors import RunError
from prism.gpu.emulation.gateway import Gateway, Traffic
from prism.gpu.emulation.links import links
from prism.net.board import Board
from prism.net.dealing import dealt, lane_of
from prism.net.ferry import Ferry
from prism.net.messages import Emulating, Laid, Setup, Spread
from prism.net.payloads import CHUNK
from prism.net.schedule import BOARD, FIFOS, SCHEDULE, Schedule

SUMS = {"left": ("rest",), "exact": ("before", "after", "result"), "prefolded": ("before", "after", "result")}
"""What assistants read of a reduction, by contribution."""
LEAD_NS = 20_000_000
"""How much before its time what virtual ranks send leaves for another host, which holds it until then: longer than ways
within a cluster take, and than a process on a busy host waits for its turn."""


class Elsewhere:
    """What worker `name` does of emulations; `directory` is private to it."""

    def __init__(self, name: str, directory: Path, ferry: Ferry, gateway: Gateway) -> None:
        self._name = name
        self._room = directory / "emulation"
        self._ferry = ferry
        self._gateway = gateway
        self._brought: list[Ref] = []
        self._cells: Int64 | None = None

    def take(self, piece: Laid) -> None:
        """A piece of a file that the processes share; one without a name makes room for another emulation's."""
        if not piece.file:
            shutil.rmtree(self._room, ignore_errors=True)
            self._room.mkdir(mode=0o700)
            return
        path = (self._room / piece.file).resolve()
        if not path.is_relative_to(self._room.resolve()):
            raise RunError(f"{piece.file!r} is no file of an emulation")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("r+b" if piece.at else "wb") as file:
            file.seek(piece.at)
            file.write(piece.data)

    async def begin(self, setup: Setup) -> Setup:
        """Bring what is needed here, and open the border; returns the setup as this host's processes get it."""
        emulation, spread = setup.emulation, setup.spread
        assert emulation is not None
        assert spread is not None
        schedule = Schedule.load(self._room / SCHEDULE)
        await self._bring(schedule, emulation, spread)
        (self._room / FIFOS).mkdir(mode=0o700)
        board = Board.of(self._room / BOARD, schedule, create=True)
        self._cells = board.cells
        traffic = self._traffic(schedule, spread, board)
        await asyncio.get_running_loop().run_in_executor(None, self._gateway.begin, traffic)
        lead = 0 if self._name in self._answered(schedule, spread) else LEAD_NS
        mine = msgspec.structs.replace(emulation, directory=str(self._room), clock=spread.ahead, lead=lead)
        return msgspec.structs.replace(setup, emulation=mine)

    def assistants(self, spread: Spread) -> list[int]:
        """The assistants of this host, as they are numbered."""
        return [-1 - place for place, name in enumerate(spread.assistants) if name == self._name]

    def end(self) -> Iterator[Laid]:
        """The emulation is over; gives the board as this host has seen it."""
        self._gateway.end()
        if self._brought:
            self._ferry.release(self._brought)
            self._brought = []
        if self._cells is not None:
            data = self._cells.astype("<i8").tobytes()
            self._cells = None
            yield from (Laid(file=BOARD, at=at, data=data[at : at + CHUNK]) for at in range(0, len(data), CHUNK))

    async def _bring(self, schedule: Schedule, emulation: Emulating, spread: Spread) -> None:
        """Bring payloads that processes of this host will read, and name the copies in this host's schedule."""
        by = {key: spread.assistants[-1 - number] for key, number in dealt(schedule, _each(spread)).items()}
        contribution = schedule.plain.contribution
        uses: dict[Ref, list[tuple[PostStep, str]]] = {}
        for part in schedule.plain.parts:
            recorded = emulation.recorded and spread.sandbox[part.rank] == self._name
            for op, step in zip(part.ops, part.steps, strict=True):
                assists = op >= 0 and by[part.rank, lane_of(schedule, op)] == self._name
                sums = SUMS.get(contribution, ()) if step.call.kind in REDUCTIONS else ("result",)
                wanted = dict.fromkeys((*(sums if assists else ()), *(("result",) if recorded else ())))
                for field in wanted:
                    ref = getattr(step, field)
                    if ref is not None and ref.host != self._name:
                        uses.setdefault(ref, []).append((step, field))
        copies = await asyncio.wrap_future(self._ferry.bring(list(uses)))
        self._brought = list(uses)
        for ref, copy in zip(uses, copies, strict=True):
            for step, field in uses[ref]:
                setattr(step, field, copy)
        plain = self._room / SCHEDULE / "plain.msgpack"
        plain.write_bytes(msgspec.msgpack.encode(schedule.plain))

    def _answered(self, schedule: Schedule, spread: Spread) -> set[str]:
        """The hosts whose sandbox ranks assistants here answer."""
        sandbox = schedule.touching.sandbox
        mine = (place for place, name in enumerate(spread.assistants) if name == self._name)
        return {spread.sandbox[sandbox[place % len(sandbox)]] for place in mine}

    def _traffic(self, schedule: Schedule, spread: Spread, board: Board) -> Traffic:
        """What crosses this host's border."""
        at = {**spread.sandbox, **{-1 - place: name for place, name in enumerate(spread.assistants)}}
        crossing = [(link, at[to]) for link, by, to in links(schedule, _each(spread)) if at[by] == self._name != at[to]]
        ranks = [place for place, rank in enumerate(schedule.touching.sandbox) if spread.sandbox[rank] == self._name]
        pools = [place for place, name in enumerate(spread.assistants) if name == self._name]
        return Traffic(
            token=spread.token,
            directory=self._room / FIFOS,
            out=[(link, spread.gateways[to]) for link, to in crossing],
            others=[address for name, address in spread.gateways.items() if name != self._name],
            cells=board.cells,
            own=board.written_by(ranks, pools),
            awaited=bool(ranks),
        )


def _each(spread: Spread) -> int:
    """How many assistants a sandbox rank has."""
    return len(spread.assistants) // len(spread.sandbox)
