"""Matching: which posts are one operation, what each member gets, and how a disagreement is told."""

from __future__ import annotations

import pytest

from prism.core.calls import Call, Ref
from prism.core.graph import OpKind
from prism.core.stage.agreement import disagreement
from prism.core.stage.op import share
from tests.core.actors import all_reduce, barrier, call, recv, send
from tests.core.matchers import WORLD, matcher, post


class TestCollectives:
    def test_the_kth_posts_of_all_members_are_one_operation(self) -> None:
        m = matcher()
        posts = [(0, 1), (0, 2), (2, 1), (1, 1), (1, 2), (2, 2)]
        ops = [post(m, rank, barrier(), handle) for rank, handle in posts]
        assert [op.seq for op in ops] == [0, 1, 0, 0, 1, 1]
        assert [(op.ready, op.absent) for op in m.ops] == [(True, []), (True, [])]

    def test_an_operation_knows_who_is_absent(self) -> None:
        op = post(matcher(), 1, barrier())
        assert (op.complete, op.absent) == (False, [0, 2])

    def test_the_last_common_one_has_been_posted_by_all(self) -> None:
        m = matcher()
        group = m.of(0, "default")
        assert m.last_common(group) is None
        for rank in WORLD:
            post(m, rank, barrier(), 1)
        post(m, 0, barrier(), 2)
        assert m.last_common(group) is m.ops[0]

    def test_the_members_agree_on_the_last_common_one(self) -> None:
        m = matcher()
        for rank in WORLD:
            post(m, rank, barrier(), 1)
        for rank in WORLD:
            post(m, rank, all_reduce(1 + rank), 2)
        assert m.last_common(m.of(0, "default")) is m.ops[0]


class TestGroups:
    def test_groups_of_equal_name_and_other_members_are_apart(self) -> None:
        m = matcher(("1", (0, 1)), ("1", (2, 3)))
        ops = [post(m, rank, barrier(), group="1") for rank in (0, 2, 3)]
        assert [op.absent for op in ops] == [[1], [], []]

    def test_groups_of_equal_members_and_other_name_are_apart(self) -> None:
        m = matcher(("1", (0, 1)), ("2", (0, 1)))
        post(m, 0, barrier(), group="1")
        assert post(m, 1, barrier(), group="2").absent == [0]

    def test_the_order_of_members_makes_another_group(self) -> None:
        m = matcher(("1", (0, 1)), ("1", (1, 0)))
        assert [group.ranks for group in m.groups] == [(0, 1), (1, 0)]

    def test_a_group_made_again_counts_from_the_start(self) -> None:
        m = matcher()
        post(m, 0, barrier(), 1)
        m.join(0, "default", WORLD, "gloo")
        op = post(m, 0, barrier(), 2)
        assert (op.seq, op.group.generation) == (0, 1)

    def test_members_make_a_group_again_at_their_own_time(self) -> None:
        m = matcher(("pair", (0, 1)))
        m.join(0, "pair", (0, 1), "gloo")
        post(m, 0, barrier(), 2, "pair")
        assert post(m, 1, barrier(), 1, "pair").group.generation == 0
        m.join(1, "pair", (0, 1), "gloo")
        assert post(m, 1, barrier(), 2, "pair").ready

    def test_ranks_inside_a_group_are_its_own(self) -> None:
        m = matcher(("odd", (3, 1)))
        post(m, 3, send(to=1), group="odd")
        assert post(m, 1, recv(source=0), group="odd").members == (3, 1)


AGREED = {
    "uneven all_gather": [call(OpKind.ALL_GATHER, n, recv=(1, 2, 3)) for n in (1, 2, 3)],
    "uneven all_to_all": [
        call(OpKind.ALL_TO_ALL, 6, send=(1, 2, 3), recv=(1, 4, 0)),
        call(OpKind.ALL_TO_ALL, 4, send=(4, 0, 0), recv=(2, 0, 5)),
        call(OpKind.ALL_TO_ALL, 5, send=(0, 5, 0), recv=(3, 0, 0)),
    ],
    "gather": [call(OpKind.GATHER, root=1, recv=(4, 4, 4) if rank == 1 else ()) for rank in WORLD],
    "scatter": [call(OpKind.SCATTER, 12 if rank == 0 else 4, root=0) for rank in WORLD],
    "uneven reduce_scatter": [call(OpKind.REDUCE_SCATTER, 6, reduce="sum", send=(1, 2, 3))] * 3,
}


@pytest.mark.parametrize("calls", AGREED.values(), ids=AGREED)
def test_members_that_agree(calls: list[Call]) -> None:
    m = matcher()
    ops = [post(m, rank, calls[rank]) for rank in (2, 0, 1)]
    assert ops[0].ready
    assert m.broken is None


def _all(first: Call, *others: Call) -> list[Call]:
    return [first, *others, *[first] * (2 - len(others))]


DISAGREED = {
    "kind": (_all(all_reduce(), barrier()), "operation: rank 0 has all_reduce, rank 1 has barrier"),
    "kind, where others tell sizes": (
        _all(call(OpKind.ALL_TO_ALL, 3, send=(1, 1, 1), recv=(1, 1, 1)), all_reduce()),
        "operation: rank 0 has all_to_all, rank 1 has all_reduce",
    ),
    "dtype": (
        _all(call(OpKind.BROADCAST, root=0), Call(OpKind.BROADCAST, "bfloat16", 4, root=0)),
        "dtype: rank 0 has float32, rank 1 has bfloat16",
    ),
    "reduction": (
        _all(all_reduce(), call(OpKind.ALL_REDUCE, reduce="max")),
        "reduction: rank 0 has sum, rank 1 has max",
    ),
    "root": (_all(call(OpKind.BROADCAST, root=0), call(OpKind.BROADCAST, root=1)), "root: rank 0 has 0, rank 1 has 1"),
    "elements": (_all(all_reduce(4), all_reduce(5)), "elements: rank 0 has 4, rank 1 has 5"),
    "sizes": (
        _all(call(OpKind.REDUCE_SCATTER, 6, send=(2, 2, 2)), call(OpKind.REDUCE_SCATTER, 6, send=(1, 2, 3))),
        "sizes: rank 0 has [2, 2, 2], rank 1 has [1, 2, 3]",
    ),
    "all_gather": (
        _all(call(OpKind.ALL_GATHER, 4, recv=(4, 4, 4)), call(OpKind.ALL_GATHER, 5, recv=(4, 4, 4))),
        "elements from rank 1 to rank 0: 5 are sent, 4 are awaited",
    ),
    "gather": (
        _all(call(OpKind.GATHER, 4, root=0, recv=(4, 4, 8)), call(OpKind.GATHER, 4, root=0)),
        "elements from rank 2 to rank 0: 4 are sent, 8 are awaited",
    ),
    "all_to_all": (
        _all(call(OpKind.ALL_TO_ALL, 3, send=(1, 1, 1), recv=(1, 1, 1)),
             call(OpKind.ALL_TO_ALL, 4, send=(1, 1, 2), recv=(1, 1, 1))),
        "elements from rank 1 to rank 2: 2 are sent, 1 are awaited",
    ),
    "scatter": (
        _all(call(OpKind.SCATTER, 12, root=0), call(OpKind.SCATTER, 4, root=0), call(OpKind.SCATTER, 5, root=0)),
        "elements: rank 0 scatters 12 over 3 ranks, rank 2 awaits 5",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("calls", "text"), DISAGREED.values(), ids=DISAGREED)
def test_members_that_disagree(calls: list[Call], text: str) -> None:
    m = matcher()
    ops = [post(m, rank, calls[rank]) for rank in WORLD]
    assert ops[0].broken == text
    assert (ops[0].complete, ops[0].ready) == (True, False)
    assert m.broken is ops[0]


@pytest.mark.parametrize(("backend", "ready"), [("gloo", True), ("nccl", False)])
def test_a_block_may_be_shorter_than_its_room_on_gloo_only(backend: str, ready: bool) -> None:
    m = matcher(("pair", (0, 1)), backend=backend)
    post(m, 0, call(OpKind.ALL_TO_ALL, 2, send=(1, 1), recv=(1, 3)), group="pair")
    assert post(m, 1, call(OpKind.ALL_TO_ALL, 3, send=(2, 1), recv=(1, 1)), group="pair").ready == ready


def test_a_disagreement_is_told_in_rank_order_whoever_posted_first() -> None:
    told = set()
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
        m = matcher()
        ops = [post(m, rank, all_reduce(8 if rank == 1 else 4)) for rank in order]
        told.add(disagreement(ops[0]))
    assert told == {"elements: rank 0 has 4, rank 1 has 8"}


def test_the_first_broken_operation_is_the_one_that_is_told() -> None:
    m = matcher()
    post(m, 0, all_reduce(4), 1)
    post(m, 0, all_reduce(4), 2)
    first = post(m, 1, all_reduce(5), 1)
    post(m, 1, all_reduce(5), 2)
    assert m.broken is first


BLOCK = Ref("result", 100, 48)
ROW = (1, 2, 3)


@pytest.mark.parametrize(
    ("kind", "shares"),
    [
        (OpKind.ALL_REDUCE, [BLOCK, BLOCK, BLOCK]),
        (OpKind.ALL_GATHER, [BLOCK, BLOCK, BLOCK]),
        (OpKind.BROADCAST, [BLOCK, None, BLOCK]),
        (OpKind.REDUCE, [None, BLOCK, None]),
        (OpKind.GATHER, [None, BLOCK, None]),
        (OpKind.SCATTER, [Ref("result", 100, 16), Ref("result", 116, 16), Ref("result", 132, 16)]),
        (OpKind.REDUCE_SCATTER, [Ref("result", 100, 8), Ref("result", 108, 16), Ref("result", 124, 24)]),
        (OpKind.SEND_RECV, [None, BLOCK]),
    ],
)
def test_what_each_member_gets(kind: OpKind, shares: list[Ref | None]) -> None:
    members = range(len(shares))
    assert [share(kind, member, 1, (BLOCK,), 3, ROW, itemsize=8) for member in members] == shares


def test_each_member_of_an_all_to_all_gets_its_own() -> None:
    results = (Ref("a", 0, 8), Ref("b", 0, 8))
    assert [share(OpKind.ALL_TO_ALL, member, -1, results, 2, (), 4) for member in range(2)] == list(results)
