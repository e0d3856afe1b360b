"""Matching: which posts are one operation, what each member gets, and how a disagreement is told."""

from __future__ import annotations

import pytest

from prism.core.events import Call, Ref
from prism.core.graph import OpKind
from prism.core.matching import Matcher, Op, share
from tests.core.actors import all_reduce, barrier, call, posted, recv, send

WORLD = (0, 1, 2)


def matcher(*groups: tuple[str, tuple[int, ...]]) -> Matcher:
    """A matcher whose groups (left out: one of three ranks) have been made by all their members."""
    made = Matcher()
    for name, ranks in groups or (("default", WORLD),):
        for rank in ranks:
            made.join(rank, name, ranks, "gloo")
    return made


def post(of: Matcher, rank: int, posting: Call, handle: int = 1, group: str = "default") -> Op | None:
    return of.post(posted(rank, handle, posting, group))


def sides(op: Op | None) -> list[tuple[int, int]]:
    """(rank, handle) of each side of a message, the sender first."""
    assert op is not None
    return [(op.posts[side].rank, op.posts[side].handle) for side in (0, 1)]


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


class TestMessages:
    def test_either_side_may_come_first(self) -> None:
        for order in ((0, 1), (1, 0)):
            m = matcher()
            first, second = (post(m, rank, (send(to=1), recv(source=0))[rank]) for rank in order)
            assert first is None
            assert sides(second) == [(0, 1), (1, 1)]

    def test_messages_of_one_channel_match_first_in_first_out(self) -> None:
        m = matcher()
        post(m, 0, send(to=1, count=1), 1)
        post(m, 0, send(to=1, count=2), 2)
        ops = [post(m, 1, recv(source=0, count=n), n) for n in (1, 2)]
        assert [(op.seq, sides(op)) for op in ops] == [(0, [(0, 1), (1, 1)]), (1, [(0, 2), (1, 2)])]

    def test_a_tag_makes_another_channel(self) -> None:
        m = matcher()
        post(m, 0, send(to=1, tag=7), 1)
        post(m, 0, send(to=1, tag=8), 2)
        ops = [post(m, 1, recv(source=0, tag=tag), tag) for tag in (8, 7)]
        assert [(op.channel, op.seq, sides(op)) for op in ops] == [
            ((0, 1, 8), 0, [(0, 2), (1, 8)]), ((0, 1, 7), 0, [(0, 1), (1, 7)]),
        ]  # fmt: skip

    def test_both_directions_are_apart(self) -> None:
        m = matcher()
        assert [post(m, rank, send(to=1 - rank), 1) for rank in (0, 1)] == [None, None]
        assert sides(post(m, 0, recv(source=1), 2)) == [(1, 1), (0, 2)]

    def test_groups_keep_their_messages_apart(self) -> None:
        m = matcher(("a", (0, 1)), ("b", (0, 1)))
        post(m, 0, send(to=1), group="a")
        assert post(m, 1, recv(source=0), group="b") is None

    def test_a_receive_from_any_source_takes_the_oldest_that_fits(self) -> None:
        m = matcher()
        post(m, 1, send(to=0, tag=5), 1)
        post(m, 2, send(to=0), 1)
        post(m, 1, send(to=0), 2)
        ops = [post(m, 0, recv(), handle) for handle in (1, 2)]
        assert [(op.channel, sides(op)[0]) for op in ops] == [((2, 0, 0), (2, 1)), ((1, 0, 0), (1, 2))]

    def test_a_send_takes_the_oldest_receive_that_fits(self) -> None:
        m = matcher()
        post(m, 0, recv(source=2), 1)
        post(m, 0, recv(), 2)
        post(m, 0, recv(source=1), 3)
        assert sides(post(m, 1, send(to=0))) == [(1, 1), (0, 2)]

    def test_a_message_to_itself_is_matched(self) -> None:
        m = matcher()
        post(m, 0, send(to=0), 1)
        assert sides(post(m, 0, recv(source=0), 2)) == [(0, 1), (0, 2)]

    def test_what_nobody_took_is_known(self) -> None:
        m = matcher()
        post(m, 0, send(to=1))
        assert [p.rank for p in m.unmatched(m.of(0, "default"))] == [0]


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
        "elements from rank 0 to rank 2: 4 are sent, 5 are awaited",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("calls", "text"), DISAGREED.values(), ids=DISAGREED)
def test_members_that_disagree(calls: list[Call], text: str) -> None:
    m = matcher()
    ops = [post(m, rank, calls[rank]) for rank in WORLD]
    assert ops[0].broken == text
    assert (ops[0].complete, ops[0].ready) == (True, False)
    assert m.broken is ops[0]


def test_sides_of_a_message_that_disagree() -> None:
    m = matcher()
    post(m, 1, recv(source=0, count=4))
    op = post(m, 0, send(to=1, count=5))
    assert op.broken == "message from rank 0 to rank 1: 5 x float32 are sent, 4 x float32 are awaited"


def test_the_first_broken_operation_is_the_one_that_is_told() -> None:
    m = matcher()
    post(m, 0, all_reduce(4), 1)
    post(m, 0, all_reduce(4), 2)
    first = post(m, 1, all_reduce(5), 1)
    post(m, 1, all_reduce(5), 2)
    assert m.broken is first


BLOCK = Ref("result", 100, 48)
SPLITS = ((1, 2, 3),) * 3


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
    assert [share(kind, member, 1, (BLOCK,), SPLITS, itemsize=8) for member in members] == shares


def test_each_member_of_an_all_to_all_gets_its_own() -> None:
    results = (Ref("a", 0, 8), Ref("b", 0, 8))
    assert [share(OpKind.ALL_TO_ALL, member, -1, results, (), 4) for member in range(2)] == list(results)
