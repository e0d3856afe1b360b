"""The walk of an assistant: every operation is begun as soon as it can be, however many others are not over."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prism.core.emulation import virtual_paths
from prism.core.emulation.summary import Clock, summarize
from prism.core.emulation.touching import find_touching
from prism.core.graph import Graph, OpKind
from prism.core.timeline.replay import evaluate, make_plan
from prism.gpu.emulation.walk import Walk
from prism.net.board import Board
from prism.net.schedule import OpColumns, Plain, Schedule
from tests.core.jobs import MS, Job, overlapped

MANY = 1000
SANDBOX = (0, 2)


class Played:
    """Virtual ranks that play nothing, and note what is begun."""

    def __init__(self, ops: int) -> None:
        self.ops = list(range(ops))
        self.begun: list[int] = []

    def begin(self, op: int, posts: Any) -> None:
        self.begun.append(op)

    def turn(self) -> bool:
        return False


class Emulated:
    """A graph with its ranks 0 and 2 in the sandbox, and the walk of an assistant."""

    def __init__(self, graph: Graph, path: Path) -> None:
        plan, costs = make_plan(graph), np.zeros(len(graph.ops), np.int64)
        self.costs = costs
        timeline = evaluate(plan, graph.nodes["duration"], costs)
        self.touching = find_touching(graph, plan, timeline.op_start, SANDBOX)
        self.summary = summary = summarize(graph, plan, self.touching, graph.nodes["duration"], costs)
        count = len(self.touching.op)
        nothing = {field.name: np.zeros(count, np.int64) for field in fields(OpColumns)}
        columns = OpColumns(**nothing | {"group": graph.ops["group"][self.touching.op].astype(np.int64)})
        schedule = Schedule(Plain("zeros", {}, []), columns, self.touching, summary, costs)
        self.board = Board(path / "board", len(SANDBOX), count, create=True)
        self.board.started[:] = 1
        self.played = Played(count)
        self.walk = Walk(schedule, self.board, self.played)
        self.walk.begin()
        self.group = columns.group

    def of(self, group: int) -> list[int]:
        return np.flatnonzero(self.group == group).tolist()

    def post(self, rank: int, op: int) -> None:
        self.board.posted[SANDBOX.index(rank), op] = 1 + MS


def two_pairs() -> tuple[Graph, int, int]:
    """Ranks 0 and 1 reduce many times at once; ranks 2 and 3 do so twice, when replay has all of that behind it."""
    job = Job(4)
    first, second = job.group((0, 1)), job.group((2, 3))
    for rank in (0, 1):
        job.wait(rank, *[job.post(rank, OpKind.ALL_REDUCE, 8, first) for _ in range(MANY)])
    for rank in (2, 3):
        for _ in range(2):
            job.compute(rank, 10 * MS)
            job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 8, second))
    return job.graph(), first, second


def test_a_group_goes_on_while_another_has_many_operations_open(tmp_path: Path) -> None:
    graph, first, second = two_pairs()
    emulated = Emulated(graph, tmp_path)
    assert emulated.walk.advance()
    assert sorted(emulated.played.begun) == [emulated.of(first)[0], emulated.of(second)[0]], "one of each channel"
    for op in emulated.of(second):
        emulated.post(2, op)
        emulated.walk.advance()
    assert emulated.played.begun[1:] == emulated.of(second)


def test_each_operation_begins_when_the_one_before_it_has_ended(tmp_path: Path) -> None:
    graph, first, second = two_pairs()
    emulated = Emulated(graph, tmp_path)
    for op in emulated.of(first)[:MANY]:
        emulated.post(0, op)
    while len(emulated.played.begun) < MANY + 1:
        assert emulated.walk.advance()
    assert [op for op in emulated.played.begun if op in emulated.of(first)] == emulated.of(first)
    for op in emulated.of(second):
        emulated.post(2, op)
    while emulated.walk.advance():
        pass
    assert sorted(emulated.played.begun) == emulated.played.ops


def test_a_message_begins_when_what_its_virtual_end_waits_for_has_ended(tmp_path: Path) -> None:
    """Rank 1 sends to rank 2 once it has reduced with rank 0."""
    job = Job(3)
    pair = job.group((0, 1))
    for rank in (0, 1):
        job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 8, pair))
    job.send(1, 2, 8)
    job.wait(2, job.recv(2, 1, 8))
    emulated = Emulated(job.graph(), tmp_path)
    reduced, message = emulated.of(pair)[0], emulated.of(0)[0]
    emulated.walk.advance()
    assert emulated.played.begun == [reduced]
    emulated.post(0, reduced)
    emulated.walk.advance()
    assert emulated.played.begun == [reduced, message]
    emulated.post(2, message)
    assert not emulated.walk.advance()


WALKS = """
import pickle, sys
from prism.gpu.processes import zygote
zygote._import_for_all()
import prism.gpu.emulation.assistant
clock = pickle.load(sys.stdin.buffer)
there = set(sys.modules)
for op in range(len(clock.ends)):
    clock.posts(op)
    clock.finish(op, [0])
print(*sorted(set(sys.modules) - there))
"""


def test_nothing_is_imported_in_a_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_paths, "LIMIT", 1)
    emulated = Emulated(overlapped(3, 4), tmp_path)
    assert len(emulated.summary.need_ptr) - 1 > len(emulated.touching.op), "some posts follow by way of relays"
    clock = pickle.dumps(Clock(emulated.touching, emulated.summary, emulated.costs))
    walked = subprocess.run([sys.executable, "-c", WALKS], input=clock, capture_output=True, check=True)
    assert walked.stdout.split() == []
