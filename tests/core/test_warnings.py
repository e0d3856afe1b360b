"""Warnings: what passes here and may not elsewhere, each told once with all its ranks."""

from __future__ import annotations

import pytest

from prism.core.diagnosis import Warning
from prism.core.events import Noticed
from prism.core.semantics import LARGE_BATCH, rules
from prism.core.stage.warnings import Warnings
from tests.core.actors import all_reduce, barrier, on_stage, recv, send
from tests.core.captures import Message, act, capture, post, wait


def large_batch(rank: int, size: int) -> list[Message]:
    """A batch of so many messages from rank 0 to rank 1, as a rank posts it."""
    return [((send(to=1), recv(source=0))[rank], "default", 1)] * size


def messages_exchanged(backend: str) -> list[Warning]:
    """Rank 0 sends a message and waits for it twice."""
    made = capture(2, backend=backend)
    post(made, 0, 1, send(to=1))
    post(made, 1, 1, recv(source=0))
    for _ in range(3):
        wait(made, 0, 1)
    wait(made, 1, 1)
    return made.warnings.told()


def test_equal_warnings_are_told_once_with_their_ranks_in_order() -> None:
    warnings = Warnings()
    for rank in (2, 0, 2):
        warnings.add("kind", "text", rank)
    warnings.add("kind", "other", 1)
    assert warnings.told() == [
        Warning(kind="kind", summary="text", ranks=[0, 2]), Warning(kind="kind", summary="other", ranks=[1]),
    ]  # fmt: skip


def test_what_a_rank_noticed_itself_is_told() -> None:
    stage = on_stage(2)
    stage.hear(Noticed(rank=1, kind="store_reuse", summary="text"))
    assert stage.exchange.warnings.told() == [Warning(kind="store_reuse", summary="text", ranks=[1])]


def test_a_backend_that_nobody_knows_has_the_rules_of_gloo() -> None:
    assert rules("mpi") == rules("gloo") != rules("nccl")


def test_a_batch_that_is_too_large_for_nccl() -> None:
    programs = [large_batch(rank, LARGE_BATCH + 2) for rank in (0, 1)]
    warnings = act(capture(2, backend="nccl"), *programs)
    assert [(w.kind, w.ranks) for w in warnings] == [("large_batch", [0, 1])]
    assert f"train.py:{LARGE_BATCH + 1} has more than {LARGE_BATCH} messages" in warnings[0].summary


@pytest.mark.parametrize(("backend", "size"), [("nccl", LARGE_BATCH), ("gloo", LARGE_BATCH + 2)])
def test_batches_that_are_not_too_large(backend: str, size: int) -> None:
    assert act(capture(2, backend=backend), *(large_batch(rank, size) for rank in (0, 1))) == []


def test_two_batches_are_not_one_large_one() -> None:
    half: list[list[Message]] = [large_batch(rank, LARGE_BATCH) for rank in (0, 1)]
    programs = [[*batch, *((of, group, 2) for of, group, _ in batch)] for batch in half]
    assert act(capture(2, backend="nccl"), *programs) == []


def test_a_second_wait_on_a_message_hangs_on_gloo() -> None:
    text = "a message is waited for twice at train.py:99: on gloo that hangs"
    assert messages_exchanged("gloo") == [Warning(kind="double_wait", summary=text, ranks=[0])]


def test_a_second_wait_on_a_message_is_free_on_nccl() -> None:
    assert messages_exchanged("nccl") == []


def test_a_second_wait_on_a_collective_is_free() -> None:
    made = capture(1, backend="gloo")
    post(made, 0, 1, barrier())
    wait(made, 0, 1)
    wait(made, 0, 1)
    assert made.warnings.told() == []


def test_a_message_that_nobody_took_is_pending_at_the_end() -> None:
    text = "send on group default, posted at train.py:1, never completed"
    warnings = act(capture(2, backend="gloo"), [(send(to=1), "default", 0)], [])
    assert warnings == [Warning(kind="pending_at_destroy", summary=text, ranks=[0])]


def test_a_collective_that_not_all_have_posted_is_pending_at_the_end() -> None:
    text = "all_reduce on group default, posted at train.py:1, never completed"
    program: list[Message] = [(all_reduce(), "default", 0)]
    warnings = act(capture(3, backend="gloo"), program, [], program)
    assert warnings == [Warning(kind="pending_at_destroy", summary=text, ranks=[0, 2])]


def test_what_completed_is_not_pending_though_nobody_waited_for_it() -> None:
    program: list[Message] = [(all_reduce(), "default", 0), (barrier(), "default", 0)]
    assert act(capture(2, backend="gloo"), program, program) == []
