"""Expansion: what it makes of a job is the job that was built at that extent, column by column."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.generated import Shape
from benchmarks.generated import graph as generated
from prism.core.graph import Graph, Group, NodeKind, OpKind, Stream
from prism.core.prismtrace import Trace, decode, encode
from prism.core.timeline.network import LinkClass, Network, op_costs
from prism.core.timeline.replay import evaluate, make_plan
from prism.core.what_if.expansion import expand
from prism.core.what_if.mesh import NotExpandable
from tests.core.canonical import assert_same
from tests.core.jobs import Job, expert_parallel

NETWORK = Network("alpha-beta", LinkClass(450 * 10**9, 3_000), LinkClass(50 * 10**9, 8_000))
BLOCKS, EXTENT, PLACES = 2, 2, 3
PROGRAMS = st.lists(
    st.tuples(
        st.integers(0, 10),
        st.integers(0, BLOCKS - 1),
        st.integers(0, EXTENT - 1),
        st.integers(0, PLACES - 1),
        st.integers(0, 60),
    ),
    min_size=30,
    max_size=60,
)


class Symmetric:
    """A job on a mesh BLOCKS x extent x PLACES in which coordinate c along the extent does what c mod EXTENT does."""

    def __init__(self, extent: int) -> None:
        self.job = Job(BLOCKS * extent * PLACES)
        self.ranks = ranks = np.arange(self.job.world_size).reshape(BLOCKS, extent, PLACES)
        self.extent = extent
        cells = [(b, p) for b in range(BLOCKS) for p in range(PLACES)]
        self.along = {cell: self.job.group(ranks[cell[0], :, cell[1]].tolist()) for cell in cells}
        self.slab = {b: self.job.group(ranks[b].ravel().tolist()) for b in range(BLOCKS)}
        self.inner = {(b, c): self.job.group(ranks[b, c].tolist()) for b in range(BLOCKS) for c in range(extent)}
        self.outer = {(c, p): self.job.group(ranks[::-1, c, p].tolist()) for c in range(extent) for p in range(PLACES)}
        self.handles: dict[int, list] = {rank: [] for rank in range(self.job.world_size)}
        self.events: dict[int, list] = {rank: [] for rank in range(self.job.world_size)}

    def act(self, action: int, block: int, coordinate: int, place: int, value: int) -> None:
        """What one old rank begins, all of its copies do."""
        root = int(self.ranks[block, coordinate, place])
        if action == 0:
            self.collective(0, OpKind.BROADCAST, value, root)
        elif action == 1:
            self.collective(self.slab[block], OpKind.REDUCE, value, root)
        elif action == 2:
            self.collective(self.along[block, place], OpKind.REDUCE_SCATTER, value)
        for copy in range(coordinate, self.extent, EXTENT):
            rank = int(self.ranks[block, copy, place])
            if action == 3:
                self.collective(self.inner[block, copy], OpKind.SCATTER, value, int(self.ranks[block, copy, place]))
            elif action == 4:
                self.collective(self.outer[copy, place], OpKind.ALL_TO_ALL, value, splits=range(BLOCKS**2))
            elif action in (5, 6):
                peer = int(self.ranks[value % BLOCKS, copy, (place + 1) % PLACES])
                self.message(0, rank, peer, value)
            elif action == 7:
                peer = int(self.ranks[1 - block, copy, place])
                self.message(self.outer[copy, place], rank, peer, value)
            else:
                self.alone(action, rank, value)

    def collective(self, group: int, kind: OpKind, value: int, root: int = -1, splits: range = range(0)) -> None:
        members = self.job.groups[group].ranks
        for rank in members:
            at = members.index(root) if root >= 0 else -1
            self.handles[rank].append(self.job.post(rank, kind, value, group, at, splits))

    def message(self, group: int, sender: int, receiver: int, value: int) -> None:
        self.handles[sender].append(self.job.send(sender, receiver, value, group, tag=value % 3))
        self.handles[receiver].append(self.job.recv(receiver, sender, value, group, tag=value % 3))

    def alone(self, action: int, rank: int, value: int) -> None:
        if action == 8:
            self.job.lane(rank, Stream(value % 3), value % 2)
            self.job.compute(rank, value)
        elif action == 9:
            self.job.wait(rank, *self.handles[rank][-(value % 4) :])
            self.job.mark(rank)
        elif value % 2 or not self.events[rank]:
            self.events[rank].append(self.job.record(rank))
        else:
            self.job.wait_event(rank, self.events[rank][value % len(self.events[rank])])


def symmetric(program: list[tuple[int, int, int, int, int]], extent: int) -> Graph:
    job = Symmetric(extent)
    for step in program:
        job.act(*step)
    return job.job.graph()


@given(PROGRAMS, st.integers(EXTENT, 5))
def test_it_is_the_job_built_at_that_extent(program: list, to: int) -> None:
    mesh = {"block": BLOCKS, "dp": EXTENT, "place": PLACES}
    assert_same(expand(symmetric(program, EXTENT), mesh, "dp", to), symmetric(program, to))


@given(PROGRAMS)
def test_two_steps_are_one(program: list) -> None:
    mesh = {"block": BLOCKS, "dp": EXTENT, "place": PLACES}
    start = symmetric(program, EXTENT)
    assert_same(expand(expand(start, mesh, "dp", 4), mesh | {"dp": 4}, "dp", 12), expand(start, mesh, "dp", 12))


@given(PROGRAMS, st.integers(EXTENT, 5))
def test_the_result_is_in_canonical_order(program: list, to: int) -> None:
    graph = expand(symmetric(program, EXTENT), {"b": BLOCKS, "dp": EXTENT, "p": PLACES}, "dp", to)
    keys = [(len(group.name), group.name, group.ranks) for group in graph.groups]
    assert keys == sorted(keys)
    assert graph.lanes.tolist() == sorted(graph.lanes.tolist())
    assert graph.ops["group"].tolist() == sorted(graph.ops["group"].tolist())
    waits = graph.nodes["ref"][graph.nodes["kind"] == NodeKind.WAIT]
    assert waits.tolist() == list(range(len(graph.wait_ptr) - 1))
    ranks = graph.node_rank()
    channels = []
    for op, row in enumerate(graph.ops):
        posts = graph.posts[graph.post_ptr[op] : graph.post_ptr[op + 1]]
        members = graph.groups[row["group"]].ranks
        positions = [members.index(rank) for rank in ranks[posts].tolist()]
        message = row["kind"] == OpKind.SEND_RECV
        assert message or positions == list(range(len(members)))
        channel = (int(row["group"]), (*positions, int(row["tag"])) if message else ())
        channels.append((*channel, int(row["seq"])))
        assert row["prev"] == (op - 1 if row["seq"] else -1)
        assert (graph.nodes["ref"][posts] == op).all()
    assert channels == sorted(channels)


def test_a_generated_job_at_eight_times_the_replicas() -> None:
    few, many = (Shape(stages=3, replicas=r, shards=2, micro_batches=4, layers=2) for r in (2, 16))
    start = generated(few)
    rank = np.arange(few.world).reshape(3, 2, 2)[:, np.arange(16) % 2].ravel()
    made = expand(start, {"pp": 3, "dp": 2, "tp": 2}, "dp", 16)
    expected = generated(many)
    durations = np.concatenate([start.nodes["duration"][start.lane_ptr[r] : start.lane_ptr[r + 1]] for r in rank])
    expected = expected.with_durations(durations)
    assert_same(made, expected)
    ends = [
        evaluate(make_plan(graph), graph.nodes["duration"], op_costs(graph, NETWORK, 4).total).node_end
        for graph in (made, expected)
    ]
    assert np.array_equal(*ends)


def test_copies_are_named_after_their_coordinate() -> None:
    job = Job(4)
    job.group((0, 1), "1")
    job.group((2, 3), "2")
    made = expand(job.graph(), {"dp": 2, "tp": 2}, "dp", 4)
    assert made.groups == (
        Group("1", (0, 1)), Group("2", (2, 3)), Group("world", tuple(range(8))),
        Group("1[dp=2]", (4, 5)), Group("2[dp=3]", (6, 7)),
    )  # fmt: skip


def test_it_survives_its_file() -> None:
    made = expand(expert_parallel(4), {"dp": 2, "ep": 2}, "dp", 6)
    assert_same(decode(b"".join(encode(Trace(made)))).graph, made)


@given(st.lists(st.integers(0, 1000), min_size=4, max_size=4), st.sampled_from([2, 4, 6, 8]))
def test_an_all_to_all_moves_as_much_a_member_as_before(splits: list[int], to: int) -> None:
    job = Job(2)
    for rank in range(2):
        job.post(rank, OpKind.ALL_TO_ALL, 4, splits=splits)
    made = expand(job.graph(), {"ep": 2}, "ep", to)
    matrix, old = made.splits.reshape(to, to), np.array(splits).reshape(2, 2)
    assert np.array_equal(matrix.sum(axis=1), np.tile(old.sum(axis=1), to // 2))
    assert np.array_equal(matrix.sum(axis=0), np.tile(old.sum(axis=0), to // 2))
    blocks = matrix.reshape(to // 2, 2, to // 2, 2).transpose(0, 2, 1, 3).reshape(-1, 2, 2)
    assert (blocks.max(axis=0) - blocks.min(axis=0) <= 1).all()


def refused(job: Job, mesh: dict[str, int], over: str, to: int) -> str:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is what the caller looks at
        expand(job.graph(), mesh, over, to)
    return str(caught.value)


def using(world_size: int, ranks: tuple[int, ...], name: str) -> Job:
    job = Job(world_size)
    group = job.group(ranks, name)
    for rank in ranks:
        job.post(rank, OpKind.BARRIER, group=group)
    return job


def test_a_group_that_takes_a_part_is_refused() -> None:
    assert refused(using(8, (0, 2, 4), "shard"), {"dp": 4, "tp": 2}, "dp", 8) == (
        "group 'shard' (ranks 0, 2, 4) takes a part of dp, whose extent is 4: a group has to lie at one coordinate of "
        "it or span it; divide the mesh so that each does"
    )


def test_a_skewed_group_is_refused() -> None:
    told = refused(using(4, (0, 3), "skewed"), {"dp": 2, "tp": 2}, "dp", 4)
    assert told.startswith("group 'skewed' (ranks 0, 3) takes a part of dp")


def test_a_stretched_group_in_another_order_is_refused() -> None:
    told = refused(using(2, (1, 0), "back"), {"dp": 2}, "dp", 4)
    assert told.startswith("group 'back' (ranks 1, 0) spans dp and does not list")


def test_a_group_that_nobody_uses_is_not_refused_but_left_out() -> None:
    job = using(4, (0, 2), "along")
    job.group((0, 3), "skewed")
    made = expand(job.graph(), {"dp": 2, "tp": 2}, "dp", 4)
    assert_same(made, using(8, (0, 2, 4, 6), "along").graph())


def test_a_message_along_the_dimension_is_refused() -> None:
    job = Job(4)
    job.send(0, 2, 8)
    job.recv(2, 0, 8)
    told = refused(job, {"dp": 2, "tp": 2}, "dp", 4)
    assert told.startswith("a message from rank 0 to rank 2 on group 'world' (ranks 0, 1, 2, 3) leads along dp; ")


@pytest.mark.parametrize(
    ("mesh", "over", "to", "told"),
    [
        ({"dp": 2, "tp": 4}, "dp", 4, "the mesh dp 2 x tp 4 has 8 ranks, the world 4"),
        ({"dp": 2, "tp": 2}, "pp", 4, "the mesh has no dimension pp, choose from dp, tp"),
        ({"dp": 2, "tp": 2}, "dp", 1, "dp has extent 2 and can only get longer, not 1"),
        ({"dp": 1, "tp": 4}, "dp", 2, "dp has extent 1, which does not show what communicates along it"),
        ({"dp": 2, "tp": 2}, "dp", 10**9, "the job would have 2,000,000,000 nodes, the most is"),
    ],
)
def test_what_does_not_fit_is_refused(mesh: dict[str, int], over: str, to: int, told: str) -> None:
    job = Job(4)
    for rank in range(4):
        job.compute(rank, 1)
    assert told in refused(job, mesh, over, to)


def test_too_many_splits_are_refused() -> None:
    job = Job(2)
    for rank in range(2):
        job.post(rank, OpKind.ALL_TO_ALL, 4, splits=(1, 1, 1, 1))
    with pytest.raises(NotExpandable, match="all_to_all splits, the most is"):
        expand(job.graph(), {"ep": 2}, "ep", 1 << 14)
