"""The longest paths among virtual ranks: where they come from and how long they are, however they are found."""

from __future__ import annotations

import pytest

from benchmarks.generated import Shape
from benchmarks.generated import graph as generated
from prism.core.emulation import virtual_paths
from prism.core.emulation.touching import find_touching
from prism.core.emulation.virtual_paths import VirtualPaths, find_paths
from prism.core.graph import Graph, OpKind
from prism.core.timeline.replay import evaluate, make_plan
from tests.core.jobs import Job
from tests.core.test_replay import costs_of


def paths_of(graph: Graph, sandbox: list[int]) -> VirtualPaths:
    plan, costs = make_plan(graph), costs_of(graph)
    timeline = evaluate(plan, graph.nodes["duration"], costs)
    touching = find_touching(graph, plan, timeline.op_start, sandbox)
    return find_paths(graph, plan, touching, graph.nodes["duration"], costs)


def rows(paths: VirtualPaths) -> list[tuple[int, int, int]]:
    """Virtual post, root and length of each path."""
    found = paths.lengths()
    return sorted(zip(found.post.tolist(), found.root.tolist(), found.ns.tolist(), strict=True))


def test_paths_go_through_virtual_ranks_up_to_the_next_touching_op() -> None:
    job = Job(4)
    virtual = job.group((1, 2, 3))
    for rank in range(4):
        job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 1))  # touches: root 1
        job.compute(rank, 100 * rank)
    for rank in (1, 2, 3):
        job.wait(rank, job.post(rank, OpKind.ALL_REDUCE, 1, virtual))  # takes 10, begins with rank 3
    job.compute(1, 5)
    for rank in range(4):
        job.post(rank, OpKind.ALL_REDUCE, 1)  # touches: root 2
    paths = paths_of(job.graph(), [0])
    assert paths.post_ptr.tolist() == [0, 3, 6]
    # In the second op each post has two paths: the one from the origin goes through the lanes' waits, not the first op.
    second = [(post, root, 315 if post == 3 else 310) for post in (3, 4, 5) for root in (0, 1)]
    assert rows(paths) == [(0, 0, 0), (1, 0, 0), (2, 0, 0), *second]


@pytest.mark.parametrize("roots_at_once", [1, 3, 64])
def test_roots_may_be_done_in_blocks_of_any_size(roots_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = paths_of(generated(Shape(stages=4, replicas=4, shards=2, micro_batches=6, layers=2)), [0, 9])
    expected = rows(paths)
    assert len({root for _, root, _ in expected}) > virtual_paths.BITS
    monkeypatch.setattr(virtual_paths, "BLOCK_BYTES", 0)
    monkeypatch.setattr(virtual_paths, "LEAST_ROOTS", roots_at_once)
    assert rows(paths) == expected
