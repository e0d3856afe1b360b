"""The world, event by event: what goes in, and the whole list of what comes out."""

from __future__ import annotations

import msgspec

from prism.core.calls import Ref
from prism.core.contribution import Part
from prism.core.events import Exited, Finished, Folded, Marked, Polled
from prism.core.graph import OpKind
from prism.core.instructions import AnyInstruction, Deliver, Fold, Launch, Leave, Release, Run
from prism.core.record import MarkStep, PostStep, WaitStep
from prism.core.stage.capture import Capture
from prism.core.stage.kept import Kept
from prism.core.stage.world import World
from tests.core.actors import (
    RESULT,
    SECOND,
    Stage,
    asked,
    barrier,
    bytes_of,
    call,
    launched,
    on_stage,
    posted,
    reduced,
    waited,
)


def fold(rank: int, size: int = 2) -> Fold:
    """The order to sum the first all_reduce."""
    inputs = tuple(bytes_of(r, 1) for r in range(size))
    return Fold(rank=rank, op=0, kind=OpKind.ALL_REDUCE, dtype="float32", reduce="sum", root=-1, inputs=inputs)


def leaves(stage: Stage, *ranks: int) -> list[AnyInstruction]:
    """What is said to ranks whose programs are over."""
    return stage.hear(*(Finished(rank=rank, code=0) for rank in ranks))


class TestSlots:
    def test_as_many_ranks_start_as_there_are_slots(self) -> None:
        assert Stage(3, slots=2).first == [Launch(rank=0), Launch(rank=1)]

    def test_a_slot_goes_on_where_its_rank_blocks(self) -> None:
        stage = Stage(2, slots=1)
        assert stage.up(0) == []
        assert stage.hear(posted(0, 1), waited(0, 1)) == [Launch(rank=1)]

    def test_ranks_get_slots_in_the_order_in_which_they_could_go_on(self) -> None:
        stage = Stage(3, slots=1)
        stage.up(0)
        stage.hear(posted(0, 1), waited(0, 1))
        stage.up(1)
        stage.hear(posted(1, 1), waited(1, 1))
        stage.up(2)
        stage.hear(posted(2, 1))
        assert stage.hear(posted(2, 2), waited(2, 2)) == [Deliver(rank=0, handle=1), Run(rank=0)]
        assert stage.hear(posted(0, 2), waited(0, 2)) == [Deliver(rank=1, handle=1), Run(rank=1)]

    def test_a_rank_in_line_gets_its_results_with_its_slot_and_one_that_is_not_at_once(self) -> None:
        stage = Stage(3, slots=1)
        stage.up(0)
        stage.hear(posted(0, 1), posted(0, 2), waited(0, 1))
        stage.up(1)
        stage.hear(posted(1, 1), posted(1, 2), waited(1, 1, 2))
        stage.up(2)
        assert stage.hear(posted(2, 1)) == [Deliver(rank=1, handle=1), Deliver(rank=2, handle=1)]
        assert stage.states() == ["ready", "blocked", "running"]
        assert stage.hear(posted(2, 2)) == [Deliver(rank=2, handle=2)]
        assert stage.hear(Finished(rank=2, code=0))[1:] == [
            Deliver(rank=0, handle=1), Deliver(rank=0, handle=2), Run(rank=0),
        ]  # fmt: skip
        assert stage.hear(Finished(rank=0, code=0))[1:] == [Deliver(rank=1, handle=2), Run(rank=1)]

    def test_a_slot_goes_on_when_its_rank_has_finished(self) -> None:
        stage = Stage(2, slots=1)
        stage.up(0)
        assert stage.hear(Finished(rank=0, code=0)) == [Leave(rank=0), Launch(rank=1)]
        assert stage.hear(Exited(rank=0, code=0)) == []

    def test_a_slot_goes_on_when_its_rank_is_gone_before_its_start_was_heard(self) -> None:
        stage = Stage(2, slots=1)
        assert stage.hear(Exited(rank=0, code=0)) == [Launch(rank=1)]

    def test_who_gets_a_slot_again_is_counted_as_a_switch(self) -> None:
        stage = Stage(2, slots=1)
        stage.up(0)
        stage.hear(posted(0, 1), waited(0, 1))
        stage.up(1)
        stage.hear(posted(1, 1), posted(1, 2), waited(1, 2))
        assert [rank.switches for rank in stage.world.ranks.values()] == [1, 0]


class TestPostsAndWaits:
    def test_a_post_never_blocks(self) -> None:
        stage = on_stage(2)
        assert stage.hear(posted(0, 1), posted(0, 2), posted(0, 3)) == []
        assert stage.states() == ["running", "running"]

    def test_the_last_post_delivers_to_all(self) -> None:
        stage = on_stage(2)
        assert stage.hear(posted(0, 1)) == []
        assert stage.hear(posted(1, 1)) == [Deliver(rank=0, handle=1), Deliver(rank=1, handle=1)]

    def test_who_has_made_a_result_up_is_given_none(self) -> None:
        stage = on_stage(2)
        settled = msgspec.structs.replace(posted(0, 1), settled=True)
        assert stage.hear(settled, posted(1, 1)) == [Deliver(rank=1, handle=1)]
        assert stage.hear(waited(0, 1)) == [Run(rank=0)]

    def test_a_blocked_rank_goes_on_once_all_it_waits_for_is_done(self) -> None:
        stage = on_stage(2)
        stage.hear(posted(0, 1), posted(0, 2), waited(0, 1, 2))
        assert stage.hear(posted(1, 1)) == [Deliver(rank=0, handle=1), Deliver(rank=1, handle=1)]
        assert stage.hear(posted(1, 2)) == [Deliver(rank=1, handle=2), Deliver(rank=0, handle=2), Run(rank=0)]

    def test_operations_posted_ahead_are_done_while_their_rank_computes(self) -> None:
        stage = on_stage(2)
        stage.hear(posted(0, 1), posted(0, 2))
        assert stage.hear(posted(1, 1)) == [Deliver(rank=0, handle=1), Deliver(rank=1, handle=1)]
        assert stage.states() == ["running", "running"]

    def test_a_wait_that_came_too_late_to_block_goes_on_at_once(self) -> None:
        stage = on_stage(2)
        stage.hear(posted(0, 1), posted(1, 1))
        assert stage.hear(waited(0, 1)) == [Run(rank=0)]
        assert stage.states() == ["running", "running"]

    def test_a_wait_for_what_is_done_is_recorded_all_the_same(self) -> None:
        stage = on_stage(2)
        stage.hear(posted(0, 1), posted(1, 1))
        assert stage.hear(waited(0, 1, blocks=False, site="a.py:7")) == []
        assert stage.exchange.records[0].steps == [PostStep("default", 1, barrier(), ""), WaitStep((1,), "a.py:7")]

    def test_another_thread_may_post_while_the_main_thread_is_blocked(self) -> None:
        stage = on_stage(2)
        stage.hear(posted(0, 1), waited(0, 1), posted(0, 2), posted(1, 1))
        assert stage.hear(posted(1, 2)) == [Deliver(rank=0, handle=2), Deliver(rank=1, handle=2)]

    def test_what_a_wait_that_did_not_block_named_cannot_wake_a_rank_that_asks_the_store(self) -> None:
        stage = on_stage(2)
        stage.hear(posted(0, 1), waited(0, 1, blocks=False), asked(0, "get", "key"))
        assert stage.hear(posted(1, 1)) == [Deliver(rank=0, handle=1), Deliver(rank=1, handle=1)]

    def test_the_end_of_an_iteration_is_counted_and_recorded(self) -> None:
        stage = on_stage(1)
        assert stage.hear(Marked(rank=0)) == []
        assert stage.world.ranks[0].iterations == 1
        assert stage.exchange.records[0].steps == [MarkStep()]


class TestFolds:
    def test_the_last_rank_to_post_does_the_sum(self) -> None:
        stage = on_stage(2)
        assert reduced(stage, 1, 0) == [fold(rank=0)]

    def test_a_sum_is_delivered_to_all_and_its_inputs_are_released_with_what_is_said_next(self) -> None:
        stage = on_stage(2)
        reduced(stage, 0, 1)
        assert stage.hear(Folded(rank=1, op=0, results=(RESULT,))) == [
            Deliver(rank=0, handle=1, result=RESULT),
            Deliver(rank=1, handle=1, result=RESULT),
        ]
        assert leaves(stage, 0, 1) == [
            Release(rank=0, payload=bytes_of(0, 1)), Leave(rank=0),
            Release(rank=1, payload=bytes_of(1, 1)), Leave(rank=1),
        ]  # fmt: skip

    def test_the_input_of_a_broadcast_is_its_result_and_is_not_released(self) -> None:
        stage = on_stage(2)
        of = call(OpKind.BROADCAST, root=0)
        assert stage.hear(posted(0, 1, of, payload=bytes_of(0, 1)), posted(1, 1, of)) == [
            Deliver(rank=0, handle=1),
            Deliver(rank=1, handle=1, result=bytes_of(0, 1)),
        ]

    def test_a_rank_stays_until_its_sum_is_done(self) -> None:
        stage = on_stage(2)
        reduced(stage, 0, 1)
        assert stage.hear(Finished(rank=1, code=0)) == []
        assert stage.hear(Folded(rank=1, op=0, results=(RESULT,)))[-1] == Leave(rank=1)

    def test_a_sum_whose_rank_has_died_is_done_by_another_member(self) -> None:
        stage = on_stage(3)
        reduced(stage, 0, 1, 2)
        assert stage.hear(Exited(rank=2, code=-9)) == [fold(rank=0, size=3)]
        assert stage.hear(Folded(rank=0, op=0, results=(RESULT,))) == [
            Deliver(rank=0, handle=1, result=RESULT),
            Deliver(rank=1, handle=1, result=RESULT),
        ]

    def test_the_sum_of_a_rank_that_was_given_up_counts_for_nothing(self) -> None:
        stage = on_stage(3)
        reduced(stage, 0, 1, 2)
        stage.hear(Exited(rank=2, code=-9))
        assert stage.hear(Folded(rank=2, op=0, results=(RESULT,))) == []
        assert stage.world.ranks[0].open

    def test_each_member_of_an_all_to_all_gets_its_own_result(self) -> None:
        stage = on_stage(2)
        for rank, of in enumerate((call(OpKind.ALL_TO_ALL, 4, send=(1, 3), recv=(1, 2)),
                                   call(OpKind.ALL_TO_ALL, 4, send=(2, 2), recv=(3, 2)))):  # fmt: skip
            told = stage.hear(posted(rank, 1, of, payload=bytes_of(rank, 1)))
        assert [instruction.splits for instruction in told] == [((1, 3), (2, 2))]
        results = (Ref("result", 0, 12), Ref("result", 12, 20))
        told = stage.hear(Folded(rank=1, op=0, results=results))
        assert told[:2] == [Deliver(rank=r, handle=1, result=results[r]) for r in range(2)]

    def test_a_member_is_told_of_blocks_that_are_shorter_than_its_room(self) -> None:
        stage = on_stage(2)
        for rank, awaited in enumerate(((1, 5), (3, 2))):
            of = call(OpKind.ALL_TO_ALL, 4, send=((1, 3), (2, 2))[rank], recv=awaited)
            stage.hear(posted(rank, 1, of, payload=bytes_of(rank, 1)))
        results = (Ref("result", 0, 12), Ref("result", 12, 20))
        told = stage.hear(Folded(rank=1, op=0, results=results))
        assert told[:2] == [
            Deliver(rank=0, handle=1, result=results[0], blocks=(4, 8)), Deliver(rank=1, handle=1, result=results[1]),
        ]  # fmt: skip
        assert [(w.kind, w.ranks) for w in stage.exchange.warnings.told()] == [("size_mismatch", [0])]


def test_a_rank_is_asked_for_the_partial_sums_that_are_kept() -> None:
    stage = on_stage(3, kept=Kept(sandbox=(1,), contribution="exact"))
    assert [due.parts for due in reduced(stage, 0, 1, 2)] == [(Part("before", 1, 2),)]
    assert [due.parts for due in stage.hear(Exited(rank=2, code=-9))] == [(Part("before", 1, 2),)]


class TestPolling:
    def test_a_poll_that_failed_yields_to_the_others(self) -> None:
        stage = Stage(2, slots=1)
        stage.up(0)
        stage.hear(posted(0, 1))
        assert stage.hear(Polled(rank=0, handle=1)) == [Launch(rank=1)]
        stage.up(1)
        assert stage.hear(posted(1, 1), waited(1, 1)) == [Deliver(rank=1, handle=1), Run(rank=1)]
        assert stage.hear(Finished(rank=1, code=0)) == [Leave(rank=1), Deliver(rank=0, handle=1), Run(rank=0)]

    def test_a_rank_that_polls_alone_goes_on_at_once(self) -> None:
        stage = on_stage(1)
        stage.hear(posted(0, 1))
        assert stage.hear(Polled(rank=0, handle=1)) == [Run(rank=0)]


def test_every_instruction_names_the_event_that_led_to_it() -> None:
    world = World(range(2), 1, Capture(range(2)), 60 * SECOND)
    assert world.start() == [Launch(rank=0, cause=0)]
    world.handle(launched(0))
    assert world.handle(Finished(rank=0, code=0)) == [Leave(rank=0, cause=2), Launch(rank=1, cause=2)]
