"""Inputs that reach the payload store after their post: an operation waits for its last member and its last input."""

from __future__ import annotations

import pytest

from prism.core.events import Exited, Finished, Staged
from prism.core.graph import OpKind
from prism.core.instructions import AnyInstruction, Deliver, Fold, Leave, Run
from tests.core.actors import (
    Stage,
    all_reduce,
    barrier,
    bytes_of,
    call,
    diagnosis,
    on_stage,
    posted,
    recv,
    send,
    waited,
)


def later(stage: Stage, rank: int, handle: int, of: object) -> list[AnyInstruction]:
    """The rank posts an operation whose input is still on its way."""
    return stage.hear(posted(rank, handle, of, payload=bytes_of(rank, handle), staged=False))


def staged(stage: Stage, rank: int, handle: int) -> list[AnyInstruction]:
    """The rank's input is there."""
    return stage.hear(Staged(rank=rank, handle=handle))


class TestCollectives:
    def test_the_last_input_and_not_the_last_post_begins_the_fold(self) -> None:
        stage = on_stage(2)
        assert later(stage, 0, 1, all_reduce()) == later(stage, 1, 1, all_reduce()) == []
        assert staged(stage, 0, 1) == []
        inputs = (bytes_of(0, 1), bytes_of(1, 1))
        fold = Fold(
            rank=1, op=0, kind=OpKind.ALL_REDUCE, dtype="float32", reduce="sum", root=-1, inputs=inputs
        )  # by the rank whose input came last
        assert staged(stage, 1, 1) == [fold]

    def test_a_post_may_come_last_too(self) -> None:
        stage = on_stage(2)
        later(stage, 0, 1, all_reduce())
        assert staged(stage, 0, 1) == []
        told = stage.hear(posted(1, 1, all_reduce(), payload=bytes_of(1, 1)))
        assert [type(one) for one in told] == [Fold]

    def test_a_broadcast_needs_the_root_alone(self) -> None:
        stage = on_stage(3)
        of = call(OpKind.BROADCAST, root=0)
        later(stage, 0, 1, of)
        assert stage.hear(posted(1, 1, of), posted(2, 1, of)) == []
        assert {one.rank for one in staged(stage, 0, 1) if isinstance(one, Deliver)} == {0, 1, 2}

    def test_order_is_that_of_the_posts_and_not_of_the_inputs(self) -> None:
        stage = on_stage(2)
        first, second = all_reduce(4), all_reduce(8)
        for rank in range(2):
            later(stage, rank, 1, first)
            later(stage, rank, 2, second)
        for rank in range(2):
            told = staged(stage, rank, 2)
        assert [(one.op, one.inputs[0]) for one in told] == [(1, bytes_of(0, 2))]


class TestMessages:
    @pytest.mark.parametrize("receives_first", [True, False])
    def test_a_message_waits_for_its_bytes(self, receives_first: bool) -> None:
        stage = on_stage(2)
        if receives_first:
            stage.hear(posted(1, 1, recv(0)))
            assert later(stage, 0, 1, send(1)) == []
        else:
            later(stage, 0, 1, send(1))
            assert stage.hear(posted(1, 1, recv(0))) == []
        assert [(one.rank, one.result) for one in staged(stage, 0, 1)] == [(0, None), (1, bytes_of(0, 1))]

    def test_bytes_may_be_there_before_anybody_awaits_them(self) -> None:
        stage = on_stage(2)
        later(stage, 0, 1, send(1))
        assert staged(stage, 0, 1) == []
        assert len(stage.hear(posted(1, 1, recv(0)))) == 2


class TestRanksThatWait:
    def test_nobody_is_stuck_while_an_input_is_on_its_way(self) -> None:
        stage = on_stage(2)
        for rank in range(2):
            later(stage, rank, 1, all_reduce())
            assert stage.hear(waited(rank, 1)) == []
        stage.pass_time(1)
        assert stage.world.diagnosis is None
        staged(stage, 0, 1)
        assert [type(one) for one in staged(stage, 1, 1)] == [Fold]

    def test_a_rank_that_is_gone_brings_no_input(self) -> None:
        stage = on_stage(2)
        later(stage, 0, 1, all_reduce())
        later(stage, 1, 1, all_reduce())
        staged(stage, 1, 1)
        stage.hear(waited(1, 1), Exited(rank=0, code=0))
        assert diagnosis(stage).kind == "deadlock"

    def test_a_program_that_is_over_stays_until_its_inputs_are_there(self) -> None:
        stage = on_stage(2)
        later(stage, 0, 1, send(1))
        assert stage.hear(Finished(rank=0, code=0)) == []
        assert staged(stage, 0, 1) == [Leave(rank=0)]

    def test_a_late_word_of_a_rank_that_is_gone_changes_nothing(self) -> None:
        stage = on_stage(2)
        later(stage, 0, 1, barrier())
        stage.hear(Finished(rank=0, code=0), Exited(rank=0, code=0))
        assert [one for one in staged(stage, 0, 1) if isinstance(one, Run | Leave)] == []
