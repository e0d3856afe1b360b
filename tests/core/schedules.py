"""Pipelines under many schedules, as graphs: what each stage does in which order, and how it waits for its sends."""

from __future__ import annotations

from dataclasses import dataclass, replace

from prism.core.graph import Graph, OpKind
from tests.core.jobs import Handle, Job

AHEAD = {
    "gpipe": lambda stages_behind, micro_batches: micro_batches,
    "1f1b": lambda stages_behind, micro_batches: stages_behind,
    "deep": lambda stages_behind, micro_batches: 2 * stages_behind,
}
"""How many micro-batches go forward before forward and backward take turns, by how many stages come behind."""

WAITS = ("at once", "late", "at the end", "never")
"""When a stage waits for what it has sent: late is before it sends the next."""


@dataclass(frozen=True)
class Schedule:
    """A pipeline; `shards` ranks of each stage all-reduce `layers` times in each pass."""

    name: str
    stages: int
    micro_batches: int
    shards: int = 1
    layers: int = 0
    waits: str = "at the end"
    iterations: int = 2

    def with_micro_batches(self, number: int) -> Schedule:
        return replace(self, micro_batches=number)

    def graph(self) -> Graph:
        job = Job(self.stages * self.shards)
        groups = [job.group(range(s * self.shards, (s + 1) * self.shards)) for s in range(self.stages)]
        for rank in range(self.stages * self.shards):
            for _ in range(self.iterations):
                _Iteration(self, job, rank, groups[rank // self.shards]).run()
                job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 64))
                job.mark(rank)
        return job.graph()


class _Iteration:
    """One iteration of one rank."""

    def __init__(self, schedule: Schedule, job: Job, rank: int, group: int) -> None:
        self.schedule, self.job, self.rank, self.group = schedule, job, rank, group
        self.sent: list[Handle] = []

    def run(self) -> None:
        stage, total = self.rank // self.schedule.shards, self.schedule.micro_batches
        ahead = min(total, AHEAD[self.schedule.name](self.schedule.stages - stage - 1, total))
        for _ in range(ahead):
            self._pass(1)
        for _ in range(total - ahead):
            self._pass(1)
            self._pass(-1)
        for _ in range(ahead):
            self._pass(-1)
        if self.schedule.waits == "at the end":
            for handle in self.sent:
                self.job.wait(self.rank, handle)

    def _pass(self, direction: int) -> None:
        """Forward (1) or backward (-1) through this stage."""
        job, rank, step = self.job, self.rank, direction * self.schedule.shards
        if 0 <= rank - step < job.world_size:
            job.wait(rank, job.recv(rank, rank - step, 16))
        for _ in range(self.schedule.layers):
            job.compute(rank, 300 + rank)
            job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 8, self.group))
        job.compute(rank, 1000 * (2 - direction) + 10 * rank)
        if 0 <= rank + step < job.world_size:
            if self.schedule.waits == "late" and self.sent:
                job.wait(rank, self.sent[-1])
            self.sent.append(job.send(rank, rank + step, 16))
            if self.schedule.waits == "at once":
                job.wait(rank, self.sent[-1])
