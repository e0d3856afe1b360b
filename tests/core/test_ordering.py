"""Orders that may hang: which are warned of, and which are none."""

from __future__ import annotations

from prism.core.diagnosis import Warning
from tests.core.actors import barrier, joined, recv, send
from tests.core.captures import Message, act, capture

CROSSED: list[list[Message]] = [
    [(barrier(), "a", 0), (barrier(), "b", 0)],
    [(barrier(), "b", 0), (barrier(), "a", 0)],
]


def both_send_first(batch: int) -> list[list[Message]]:
    """Two ranks that each send to the other before they receive."""
    return [[(send(to=1 - rank), "default", batch), (recv(source=1 - rank), "default", batch)] for rank in (0, 1)]


def kinds(warnings: list[Warning]) -> list[str]:
    return [warning.kind for warning in warnings]


def test_two_ranks_that_both_send_first() -> None:
    assert kinds(act(capture(2, backend="nccl"), *both_send_first(batch=0))) == ["unsafe_order"]


def test_messages_of_one_batch_have_no_order() -> None:
    assert act(capture(2, backend="nccl"), *both_send_first(batch=1)) == []


def test_two_batches_have_an_order() -> None:
    programs = [[(of, group, number) for number, (of, group, _) in enumerate(p, 1)] for p in both_send_first(batch=1)]
    assert kinds(act(capture(2, backend="nccl"), *programs)) == ["unsafe_order"]


def test_one_that_sends_first_and_one_that_receives_first() -> None:
    first, second = both_send_first(batch=0)
    assert act(capture(2, backend="nccl"), first, second[::-1]) == []


def test_two_groups_crossed_are_told_with_both_operations() -> None:
    (warning,) = act(capture(2, "a", "b", backend="nccl"), *CROSSED)
    assert (warning.kind, warning.ranks) == ("unsafe_order", [0, 1])
    assert "barrier of group a at train.py:1" in warning.summary
    assert "barrier of group b at train.py:2" in warning.summary


def test_two_groups_in_one_order() -> None:
    assert act(capture(2, "a", "b", backend="nccl"), CROSSED[0], CROSSED[0]) == []


def test_gloo_runs_operations_in_any_order() -> None:
    assert act(capture(2, backend="gloo"), *both_send_first(batch=0)) == []
    assert act(capture(2, "a", "b", backend="gloo"), *CROSSED) == []


def test_a_circle_of_three_groups_that_no_two_ranks_see() -> None:
    orders = ("ab", "bc", "ca")
    made = capture(3, backend="nccl")
    for group, ranks in (("a", (0, 2)), ("b", (0, 1)), ("c", (1, 2))):
        for rank in ranks:
            made.join(joined(rank, ranks, group, "nccl"))
    (warning,) = act(made, *([(barrier(), group, 0) for group in order] for order in orders))
    assert (warning.kind, warning.ranks) == ("unsafe_order", [0, 1, 2])


def test_a_message_to_itself_is_no_circle() -> None:
    for batch in (0, 1):
        program: list[Message] = [(send(to=0), "default", batch), (recv(source=0), "default", batch)]
        assert act(capture(1, backend="nccl"), program) == []


def test_the_same_crossing_in_every_iteration_is_one_warning() -> None:
    assert len(act(capture(2, "a", "b", backend="nccl"), CROSSED[0] * 50, CROSSED[1] * 50)) == 1
