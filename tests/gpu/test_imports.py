"""Imports: an instruction whose payloads are elsewhere waits for them, and keeps its place in its rank's line."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Sequence

from prism.core.calls import Ref
from prism.core.events import Delivered, Exited, Folded
from prism.core.graph import OpKind
from prism.core.instructions import AnyInstruction, Deliver, Fold
from prism.gpu.processes.imports import Imports


class Ferry:
    """Brings when it is told to."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[Ref], concurrent.futures.Future[list[Ref]]]] = []
        self.released: list[Ref] = []

    def bring(self, payloads: Sequence[Ref]) -> concurrent.futures.Future[list[Ref]]:
        self.asked.append((list(payloads), concurrent.futures.Future()))
        return self.asked[-1][1]

    def release(self, payloads: Sequence[Ref]) -> None:
        self.released += payloads

    async def arrive(self, number: int) -> None:
        payloads, future = self.asked[number]
        future.set_result([Ref(f"here.{ref.file}", ref.offset, ref.nbytes) for ref in payloads])
        await turns()


class Desk:
    """Imports of worker `here`, what it told ranks, and why it failed."""

    def __init__(self) -> None:
        self.ferry = Ferry()
        self.told: list[AnyInstruction] = []
        self.failures: list[str] = []
        self.imports = Imports("here", self.ferry, self.told.append, self.failures.append)  # type: ignore[arg-type]
        self.imports.begin()


async def turns() -> None:
    """Let everything that is due happen."""
    for _ in range(4):
        await asyncio.sleep(0)


HERE, THERE = Ref("here.a", 0, 8), Ref("there.b", 8, 8)


async def test_what_is_here_is_told_at_once() -> None:
    desk = Desk()
    for instruction in (Deliver(rank=0, handle=1, result=HERE), Deliver(rank=0, handle=2)):
        desk.imports.take(instruction)
        assert desk.told.pop() == instruction
    assert desk.ferry.asked == []


async def test_a_rank_is_told_in_order_and_others_do_not_wait() -> None:
    desk = Desk()
    desk.imports.take(Deliver(rank=0, handle=1, result=THERE))
    desk.imports.take(Deliver(rank=0, handle=2, result=HERE))
    desk.imports.take(Deliver(rank=1, handle=1, result=HERE))
    assert [told.rank for told in desk.told] == [1]
    await desk.ferry.arrive(0)
    copy = Ref("here.there.b", 8, 8)
    assert desk.told[1:] == [Deliver(rank=0, handle=1, result=copy), Deliver(rank=0, handle=2, result=HERE)]


async def test_a_fold_gets_all_inputs_and_routes() -> None:
    desk = Desk()
    fold = Fold(
        rank=0, op=3, kind=OpKind.ALL_TO_ALL, dtype="int8", reduce="none", root=-1,
        inputs=(HERE, THERE, None), routes=((THERE.part(0, 2),), (HERE,)),
    )  # fmt: skip
    desk.imports.take(fold)
    assert desk.ferry.asked[0][0] == [THERE, THERE.part(0, 2)]
    await desk.ferry.arrive(0)
    (told,) = desk.told
    assert isinstance(told, Fold)
    assert [ref and ref.host for ref in told.inputs] == ["here", "here", None]
    assert [[ref.host for ref in parts] for parts in told.routes] == [["here"], ["here"]]


async def test_copies_go_when_they_were_used_or_their_rank_is_gone() -> None:
    desk = Desk()
    for handle in (1, 2):
        desk.imports.take(Deliver(rank=0, handle=handle, result=THERE.part(handle, 1)))
        await desk.ferry.arrive(handle - 1)
    desk.imports.hear(Folded(rank=0, op=1, results=()))
    assert desk.ferry.released == []
    desk.imports.hear(Delivered(rank=0, handle=1))
    assert desk.ferry.released == [THERE.part(1, 1)]
    desk.imports.hear(Exited(rank=0, code=0))
    assert desk.ferry.released == [THERE.part(1, 1), THERE.part(2, 1)]


async def test_what_cannot_be_brought_is_told_and_a_stage_that_is_over_hears_nothing() -> None:
    desk = Desk()
    desk.imports.take(Deliver(rank=0, handle=1, result=THERE))
    desk.ferry.asked[0][1].set_exception(OSError("no room"))
    await turns()
    assert desk.failures == ["no room"]
    desk.imports.take(Deliver(rank=0, handle=2, result=THERE))
    desk.imports.begin()
    await desk.ferry.arrive(1)
    assert desk.told == []
