"""Instructions whose payloads are on other hosts: they wait in the worker until the ferry has brought those.

This is the one place where bytes of a tensor are sent for: who sums gets the inputs of ranks elsewhere, who waits for a
result gets that, and nothing else crosses hosts. What a rank is told in the end names files of its own host.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from prism.core.calls import Ref
from prism.core.events import AnyEvent, Delivered, Exited, Folded
from prism.core.instructions import AnyInstruction, Deliver, Fold
from prism.net.ferry import Ferry
from prism.net.transport import ConnectionClosed, ConnectionRefused

LOST_S = 10.0
"""How long the coordinator has to find out itself that another host is lost, and to say so better."""


@dataclass
class _Waiting:
    """An instruction in its rank's line; `ready` is what the rank is told, once all is here."""

    ready: Deliver | Fold | None


class Imports:
    """The instructions of one worker's ranks; `tell` passes one on, `failed` hears why payloads do not come."""

    def __init__(
        self, name: str, ferry: Ferry, tell: Callable[[AnyInstruction], None], failed: Callable[[str], None]
    ) -> None:
        self._name = name
        self._ferry = ferry
        self._tell = tell
        self._failed = failed
        self._lines: dict[int, deque[_Waiting]] = {}
        self._brought: dict[tuple[int, str, int], list[Ref]] = {}
        self._loop = asyncio.get_running_loop()
        self._stage = 0

    def begin(self) -> None:
        """A stage begins; what is still on its way belongs to none."""
        self._stage += 1
        self._lines.clear()
        self._brought.clear()

    def take(self, instruction: Deliver | Fold) -> None:
        """Pass an instruction on once its payloads are here, after those of its rank that came before it."""
        foreign = [ref for ref in _payloads(instruction) if ref.host != self._name]
        line = self._lines.get(instruction.rank)
        if not foreign and not line:
            self._tell(instruction)
            return
        waiting = _Waiting(None if foreign else instruction)
        self._lines.setdefault(instruction.rank, deque()).append(waiting)
        if foreign:
            self._brought[_key(instruction)] = foreign
            bringing = asyncio.wrap_future(self._ferry.bring(foreign), loop=self._loop)
            bringing.add_done_callback(functools.partial(self._came, self._stage, instruction, foreign, waiting))

    def hear(self, event: AnyEvent) -> None:
        """A rank has done something, and may not need its copies any more."""
        match event:
            case Delivered(rank=rank, handle=number):
                self._spent((rank, Deliver.__name__, number))
            case Folded(rank=rank, op=number):
                self._spent((rank, Fold.__name__, number))
            case Exited(rank=rank):
                self._lines.pop(rank, None)
                for key in [key for key in self._brought if key[0] == rank]:
                    self._spent(key)

    def _spent(self, key: tuple[int, str, int]) -> None:
        payloads = self._brought.pop(key, None)
        if payloads:
            self._ferry.release(payloads)

    def _came(
        self,
        stage: int,
        instruction: Deliver | Fold,
        foreign: Sequence[Ref],
        waiting: _Waiting,
        bringing: asyncio.Future[list[Ref]],
    ) -> None:
        if stage != self._stage or bringing.cancelled():
            return
        if (error := bringing.exception()) is not None:
            self._report(error, stage)
            return
        waiting.ready = _with(instruction, dict(zip(foreign, bringing.result(), strict=True)))
        line = self._lines.get(instruction.rank)
        while line and line[0].ready is not None:
            self._tell(line.popleft().ready)  # type: ignore[arg-type]  # it has just been seen
        if not line:
            self._lines.pop(instruction.rank, None)

    def _report(self, error: BaseException, stage: int) -> None:
        """Say why payloads do not come; that a host is lost, only if nobody else does."""
        if isinstance(error, ConnectionClosed | ConnectionRefused):
            self._loop.call_later(LOST_S, self._still_failed, stage, str(error))
        else:
            self._failed(str(error))

    def _still_failed(self, stage: int, reason: str) -> None:
        if stage == self._stage:
            self._failed(reason)


def _key(instruction: Deliver | Fold) -> tuple[int, str, int]:
    number = instruction.handle if isinstance(instruction, Deliver) else instruction.op
    return instruction.rank, type(instruction).__name__, number


def _payloads(instruction: Deliver | Fold) -> list[Ref]:
    """All that the rank will read for an instruction."""
    if isinstance(instruction, Deliver):
        return [instruction.result] if instruction.result is not None else []
    given = [ref for ref in instruction.inputs if ref is not None]
    return [*given, *(ref for parts in instruction.routes for ref in parts)]


def _with(instruction: Deliver | Fold, copies: dict[Ref, Ref]) -> Deliver | Fold:
    """The instruction with copies in the place of what they are copies of."""
    if isinstance(instruction, Deliver):
        assert instruction.result is not None, "only an instruction with payloads waits for them"
        return msgspec.structs.replace(instruction, result=copies.get(instruction.result, instruction.result))
    return msgspec.structs.replace(
        instruction,
        inputs=tuple(ref and copies.get(ref, ref) for ref in instruction.inputs),
        routes=tuple(tuple(copies.get(ref, ref) for ref in parts) for parts in instruction.routes),
    )
