"""A world of sandbox ranks for tests: the job that they were captured in, and what is heard of them in emulation."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from prism.core.diagnosis import Diagnosis
from prism.core.emulation.sandboxed import Sandboxed
from prism.core.events import AnyEvent, Completed, Marked, Ticked, stamp
from prism.core.graph import Graph
from prism.core.instructions import AnyInstruction
from prism.core.record import RankRecord
from prism.core.stage.building import build_graph
from prism.core.stage.world import World
from tests.core.actors import SECOND, all_reduce, joined, launched, posted, recv, send, waited
from tests.core.captures import capture, post, wait

SIZE = 4
HANG_AFTER = 10 * SECOND


def job() -> tuple[Graph, list[RankRecord]]:
    """Four ranks reduce and end an iteration; before it ends rank 0 sends to rank 1, and gets a message of rank 3."""
    made = capture(SIZE, backend="gloo")
    for rank in range(SIZE):
        post(made, rank, 1, all_reduce())
    for rank in range(SIZE):
        wait(made, rank, 1)
    post(made, 0, 2, send(to=1))
    post(made, 1, 2, recv(source=0))
    wait(made, 0, 2)
    post(made, 3, 2, send(to=0, tag=5))
    post(made, 0, 3, recv(source=3, tag=5))
    for rank in range(SIZE):
        made.mark(Marked(rank=rank))
    return build_graph(made.records, made.matcher), made.records


class Emulated:
    """A world of sandbox ranks, all of them running; `captured` are those that have a record."""

    def __init__(self, *sandbox: int, captured: Sequence[int] | None = None) -> None:
        graph, records = job()
        known = {record.rank: record for record in records if captured is None or record.rank in captured}
        self.exchange = Sandboxed(graph, sandbox, known)
        self.world = World(sandbox, len(sandbox), self.exchange, HANG_AFTER, preempt=False)
        self.now = 0
        self.world.start()
        for rank in sandbox:
            self.hear(launched(rank), joined(rank, range(SIZE)))

    def hear(self, *events: AnyEvent) -> list[AnyInstruction]:
        told: list[AnyInstruction] = []
        for event in events:
            stamp(event, self.now)
            told += self.world.handle(event)
        return [msgspec.structs.replace(instruction, cause=0) for instruction in told]

    def pass_time(self, ns: int) -> list[AnyInstruction]:
        self.now += ns
        return self.hear(Ticked(rank=-1))

    def reduces(self, rank: int) -> list[AnyInstruction]:
        """The rank posts the first operation and waits for it in its engine."""
        return self.hear(
            posted(rank, 1, all_reduce(), site="train.py:5"), waited(rank, 1, blocks=False, site="train.py:6")
        )

    def diagnosis(self) -> Diagnosis:
        assert self.world.diagnosis is not None, "the run goes on"
        return self.world.diagnosis

    def diverged(self) -> str:
        assert self.diagnosis().kind == "diverged"
        return self.diagnosis().summary.removeprefix("rank 0 does not repeat what was captured: ")


def completed(rank: int, handle: int) -> Completed:
    return Completed(rank=rank, handle=handle)
