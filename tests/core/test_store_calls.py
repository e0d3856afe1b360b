"""Calls of the store: who is answered at once, who waits, who yields, and what other threads may do meanwhile."""

from __future__ import annotations

import pytest

from prism.core.calls import Reply, StoreCall
from prism.core.events import Exited, Finished, Probed, Suspended
from prism.core.instructions import Answer, AnyInstruction, Launch, Leave
from prism.core.stage.turns import QUANTUM
from tests.core.actors import Stage, asked, on_stage, posted, waited


def answer(rank: int, value: bytes = b"", call: int = 1, present: bool = True) -> Answer:
    return Answer(rank=rank, call=call, value=value, present=present)


class TestMainThread:
    def test_set_is_answered_at_once(self) -> None:
        assert on_stage(1).hear(asked(0, "set", "key", value=b"v")) == [answer(0)]

    def test_an_answer_bears_the_number_of_its_call(self) -> None:
        assert on_stage(1).hear(asked(0, "set", "key", number=7)) == [answer(0, call=7)]

    def test_get_waits_for_its_key(self) -> None:
        stage = Stage(2, slots=1)
        stage.up(0)
        assert stage.hear(asked(0, "get", "key", number=7)) == [Launch(rank=1)]
        stage.up(1)
        assert stage.hear(asked(1, "set", "key", value=b"v")) == [answer(1)]
        assert stage.hear(Finished(rank=1, code=0)) == [Leave(rank=1), answer(0, b"v", call=7)]

    def test_wait_needs_all_its_keys(self) -> None:
        stage = on_stage(2)
        stage.hear(asked(0, "wait", "a", "b"))
        assert stage.hear(asked(1, "set", "a")) == [answer(1)]
        assert stage.hear(asked(1, "set", "b")) == [answer(1), answer(0)]

    @pytest.mark.parametrize("action", ["set", "add", "append", "compare_set"])
    def test_whatever_makes_a_key_wakes_who_waits_for_it(self, action: str) -> None:
        stage = on_stage(2)
        stage.hear(asked(0, "wait", "key"))
        assert stage.hear(asked(1, action, "key"))[1:] == [answer(0)]

    def test_a_check_that_failed_yields_to_the_others(self) -> None:
        stage = Stage(2, slots=1)
        stage.up(0)
        assert stage.hear(asked(0, "check", "key", number=7)) == [Launch(rank=1)]
        stage.up(1)
        assert stage.hear(asked(1, "check", "key")) == [answer(0, call=7, present=False)]

    def test_a_check_that_holds_keeps_its_slot(self) -> None:
        stage = Stage(2, slots=1)
        stage.up(0)
        assert stage.hear(asked(0, "set", "key"), asked(0, "check", "key", number=2)) == [answer(0), answer(0, call=2)]

    def test_a_delete_that_found_nothing_keeps_its_slot(self) -> None:
        stage = Stage(2, slots=1)
        stage.up(0)
        assert stage.hear(asked(0, "delete", "key")) == [answer(0, present=False)]

    def test_adding_to_text_is_refused(self) -> None:
        stage = on_stage(1)
        stage.hear(asked(0, "set", "key", value=b"text"))
        text = "store key 'key' holds b'text', to which nothing can be added"
        assert stage.hear(asked(0, "add", "key", number=2, amount=1)) == [Answer(rank=0, call=2, error=text)]

    def test_replies_are_recorded_with_what_was_asked(self) -> None:
        stage = on_stage(2)
        stage.hear(asked(0, "get", "key"), asked(1, "add", "key", amount=3))
        assert stage.exchange.records[0].replies == [(StoreCall("get", ("key",)), Reply(b"3"))]

    def test_a_rank_that_died_waiting_for_a_key_is_not_answered(self) -> None:
        stage = on_stage(3)
        stage.hear(asked(0, "get", "key"), Exited(rank=0, code=-9))
        assert stage.hear(asked(1, "set", "key")) == [answer(1)]


class TestOtherThreads:
    """They may call at any time, and the rank is where its main thread is."""

    def test_one_is_answered_while_the_main_thread_is_blocked(self) -> None:
        stage = on_stage(2)
        stage.hear(posted(0, 1), waited(0, 1))
        assert stage.hear(asked(0, "set", "key", number=7, main=False)) == [answer(0, call=7)]
        assert stage.states() == ["blocked", "running"]

    def test_one_may_wait_for_a_key_while_the_main_thread_is_blocked(self) -> None:
        stage = on_stage(2)
        stage.hear(posted(0, 1), waited(0, 1), asked(0, "get", "key", number=7, main=False))
        assert stage.hear(asked(1, "set", "key", value=b"v")) == [answer(1), answer(0, b"v", call=7)]
        assert stage.states() == ["blocked", "running"]

    def test_one_may_wait_for_a_key_while_the_main_thread_computes(self) -> None:
        stage = on_stage(2)
        assert stage.hear(asked(0, "get", "key", main=False)) == []
        assert stage.states() == ["running", "running"]

    def test_the_main_thread_may_wait_for_the_key_that_another_thread_sets(self) -> None:
        stage = on_stage(2)
        stage.hear(asked(0, "get", "key"))
        told = stage.hear(asked(0, "set", "key", number=2, main=False, value=b"v"))
        assert told == [answer(0, call=2), answer(0, b"v")]

    def test_a_check_of_one_that_failed_is_answered_and_yields_nothing(self) -> None:
        stage = Stage(2, slots=1)
        stage.up(0)
        assert stage.hear(asked(0, "check", "key", number=7, main=False)) == [answer(0, call=7, present=False)]
        assert stage.states() == ["running", "new"]

    def test_what_one_said_before_its_rank_was_stopped_is_answered(self) -> None:
        stage = _stopped()
        assert stage.hear(asked(0, "set", "key", main=False)) == [answer(0)]
        assert stage.states() == ["stopped", "launching"]

    def test_one_whose_rank_died_is_not_answered(self) -> None:
        stage = on_stage(3)
        stage.hear(asked(0, "get", "key", main=False), Exited(rank=0, code=0))
        assert stage.hear(asked(1, "set", "key")) == [answer(1)]

    def test_each_of_several_gets_its_own_answer(self) -> None:
        stage = on_stage(2)
        stage.hear(*(asked(0, "get", key, number=n, main=False) for n, key in enumerate("ab", start=1)))
        told: list[AnyInstruction] = [answer(1), answer(0, b"b", call=2)]
        assert stage.hear(asked(1, "set", "b", value=b"b")) == told


def _stopped() -> Stage:
    """Rank 0 has lost the only slot to rank 1, in mid-computation."""
    stage = Stage(2, slots=1)
    stage.up(0)
    stage.pass_time(QUANTUM)
    stage.hear(Probed(rank=0, waiting=False), Suspended(rank=0))
    return stage
