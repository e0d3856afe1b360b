"""Messages: which sends and receives meet, under whose rules, and what happens where they disagree."""

from __future__ import annotations

import pytest

from prism.core.diagnosis import Warning
from prism.core.stage.matching import Matcher
from prism.core.stage.op import Op
from tests.core.actors import recv, send
from tests.core.matchers import matcher, post


def sides(op: Op | None) -> list[tuple[int, int]]:
    """(rank, handle) of each side of a message, the sender first."""
    assert op is not None
    return [(op.posts[side].rank, op.posts[side].handle) for side in (0, 1)]


def exchanged(m: Matcher, sent: int, awaited: int) -> Op:
    """A message of so many elements from rank 0, and the receive of rank 1 that it meets."""
    post(m, 1, recv(source=0, count=awaited))
    op = post(m, 0, send(to=1, count=sent))
    assert op is not None
    return op


def test_either_side_may_come_first() -> None:
    for order in ((0, 1), (1, 0)):
        m = matcher()
        first, second = (post(m, rank, (send(to=1), recv(source=0))[rank]) for rank in order)
        assert first is None
        assert sides(second) == [(0, 1), (1, 1)]


def test_messages_of_one_channel_match_first_in_first_out() -> None:
    m = matcher()
    post(m, 0, send(to=1, count=1), 1)
    post(m, 0, send(to=1, count=2), 2)
    ops = [post(m, 1, recv(source=0, count=n), n) for n in (1, 2)]
    assert [(op.seq, sides(op)) for op in ops] == [(0, [(0, 1), (1, 1)]), (1, [(0, 2), (1, 2)])]


def test_a_tag_makes_another_channel() -> None:
    m = matcher()
    post(m, 0, send(to=1, tag=7), 1)
    post(m, 0, send(to=1, tag=8), 2)
    ops = [post(m, 1, recv(source=0, tag=tag), tag) for tag in (8, 7)]
    assert [(op.channel, op.seq, sides(op)) for op in ops] == [
        ((0, 1, 8), 0, [(0, 2), (1, 8)]), ((0, 1, 7), 0, [(0, 1), (1, 7)]),
    ]  # fmt: skip


def test_both_directions_are_apart() -> None:
    m = matcher()
    assert [post(m, rank, send(to=1 - rank), 1) for rank in (0, 1)] == [None, None]
    assert sides(post(m, 0, recv(source=1), 2)) == [(1, 1), (0, 2)]


def test_groups_keep_their_messages_apart() -> None:
    m = matcher(("a", (0, 1)), ("b", (0, 1)))
    post(m, 0, send(to=1), group="a")
    assert post(m, 1, recv(source=0), group="b") is None


def test_a_receive_from_any_source_takes_the_oldest_that_fits() -> None:
    m = matcher()
    post(m, 1, send(to=0, tag=5), 1)
    post(m, 2, send(to=0), 1)
    post(m, 1, send(to=0), 2)
    ops = [post(m, 0, recv(), handle) for handle in (1, 2)]
    assert [(op.channel, sides(op)[0]) for op in ops] == [((2, 0, 0), (2, 1)), ((1, 0, 0), (1, 2))]


def test_a_send_takes_the_oldest_receive_that_fits() -> None:
    m = matcher()
    post(m, 0, recv(source=2), 1)
    post(m, 0, recv(), 2)
    post(m, 0, recv(source=1), 3)
    assert sides(post(m, 1, send(to=0))) == [(1, 1), (0, 2)]


def test_a_message_to_itself_is_matched() -> None:
    m = matcher()
    post(m, 0, send(to=0), 1)
    assert sides(post(m, 0, recv(source=0), 2)) == [(0, 1), (0, 2)]


@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_a_message_that_is_too_long_is_a_mismatch(backend: str) -> None:
    op = exchanged(matcher(backend=backend), sent=5, awaited=4)
    assert op.broken == "message from rank 0 to rank 1: 5 x float32 are sent, 4 x float32 are awaited"


def test_gloo_lets_a_receive_be_longer_than_its_message() -> None:
    m = matcher(backend="gloo")
    assert exchanged(m, sent=3, awaited=4).ready
    text = "message from rank 0 to rank 1: 3 x float32 are sent, 4 x float32 are awaited at ?"
    assert m.warnings.told() == [Warning(kind="size_mismatch", summary=text, ranks=[1])]


def test_nccl_does_not_let_a_receive_be_longer_than_its_message() -> None:
    m = matcher(backend="nccl")
    assert exchanged(m, sent=3, awaited=4).broken
    assert m.warnings.told() == []


def test_nccl_matches_by_order_and_not_by_tag() -> None:
    m = matcher(backend="nccl")
    post(m, 0, send(to=1, tag=7))
    assert sides(post(m, 1, recv(source=0, tag=8))) == [(0, 1), (1, 1)]
    text = (
        "messages from rank 0 to rank 1 on group default are sent with tag 7 and awaited with tag 8: "
        "nccl matches them by order and ignores tags"
    )
    assert m.warnings.told() == [Warning(kind="tags_ignored", summary=text, ranks=[0, 1])]


def test_equal_tags_are_worth_no_warning() -> None:
    m = matcher(backend="nccl")
    post(m, 0, send(to=1, tag=7))
    post(m, 1, recv(source=0, tag=7))
    assert m.warnings.told() == []
