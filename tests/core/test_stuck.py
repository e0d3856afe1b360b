"""Which ranks can never go on: loops that poll, and worlds of many ranks."""

from __future__ import annotations

import pytest

from prism.core.events import Delivered, Exited, Polled
from prism.core.stage.stuck import SURE_POLLING, SURE_POLLS, stuck_ranks
from tests.core.actors import MS, Stage, asked, blocked, diagnosis, make_groups, on_stage, posted, recv, send

MANY = 2000


def polls(stage: Stage, rank: int, handle: int, times: int) -> None:
    """The rank asks for an operation again and again, in vain."""
    stage.hear(*(Polled(rank=rank, handle=handle, site="train.py:7") for _ in range(times)))


def crossed() -> Stage:
    """Rank 0 has posted on one group and computes, rank 1 is blocked on another."""
    stage = on_stage(2)
    make_groups(stage, ("a", (0, 1)), ("b", (0, 1)))
    stage.hear(posted(0, 1, group="a", site="train.py:6"))
    blocked(stage, 1, 1, group="b")
    return stage


class TestPolling:
    def test_a_loop_that_polls_in_vain_counts_as_waiting(self) -> None:
        stage = crossed()
        polls(stage, 0, 1, SURE_POLLS - 1)
        stage.pass_time(SURE_POLLING)
        assert stage.world.diagnosis is None
        polls(stage, 0, 1, 1)
        stage.pass_time(SURE_POLLING)
        found = diagnosis(stage)
        assert (found.kind, found.cycle) == ("deadlock", [0, 1])
        assert found.summary.startswith(
            "rank 0 waits in barrier, operation 1 of group a, at train.py:6 (waited for at train.py:7)"
        )

    def test_a_loop_that_has_polled_for_a_moment_only_may_still_give_up(self) -> None:
        stage = crossed()
        polls(stage, 0, 1, 10 * SURE_POLLS)
        stage.pass_time(50 * MS)
        assert stage.world.diagnosis is None

    def test_two_loops_that_poll_for_each_other(self) -> None:
        stage = on_stage(2)
        for rank in (0, 1):
            stage.hear(posted(rank, 1, recv(source=1 - rank)))
            polls(stage, rank, 1, SURE_POLLS)
        stage.pass_time(SURE_POLLING)
        assert (diagnosis(stage).kind, diagnosis(stage).cycle) == ("deadlock", [0, 1])

    def test_something_done_between_polls_starts_the_count_again(self) -> None:
        stage = crossed()
        polls(stage, 0, 1, SURE_POLLS - 1)
        stage.hear(posted(0, 2, group="b"))
        polls(stage, 0, 1, SURE_POLLS - 1)
        stage.pass_time(SURE_POLLING)
        assert stage.world.diagnosis is None

    def test_polls_for_two_operations_in_turn_are_not_sure(self) -> None:
        stage = crossed()
        stage.hear(posted(0, 2, group="a"))
        for handle in (1, 2) * SURE_POLLS:
            polls(stage, 0, handle, 1)
        stage.pass_time(SURE_POLLING)
        assert stage.world.diagnosis is None

    def test_a_loop_that_polls_for_a_rank_that_computes_goes_on(self) -> None:
        stage = on_stage(2)
        stage.hear(posted(0, 1, recv(source=1)))
        polls(stage, 0, 1, 2 * SURE_POLLS)
        stage.pass_time(SURE_POLLING)
        assert stage.world.diagnosis is None

    def test_who_got_what_it_polled_for_computes(self) -> None:
        stage = on_stage(3)
        stage.hear(posted(0, 1, recv(source=2)), posted(0, 2, recv(source=1)))
        polls(stage, 0, 1, SURE_POLLS)
        blocked(stage, 1, 1, recv(source=0))  # which rank 0 sends as soon as it has the message of rank 2
        stage.hear(posted(2, 1, send(to=0)), Delivered(rank=0, handle=1), Delivered(rank=2, handle=1))
        stage.pass_time(SURE_POLLING)
        assert stage.world.diagnosis is None

    def test_who_polls_the_store_does_not_wait_for_what_it_has_posted(self) -> None:
        stage = on_stage(3)
        stage.hear(posted(0, 1, recv(source=1)))
        stage.hear(*(asked(0, "check", "ready") for _ in range(2 * SURE_POLLS)))  # rank 2 will set it
        blocked(stage, 1, 1, recv(source=0))
        stage.pass_time(SURE_POLLING)
        assert stage.world.diagnosis is None

    def test_a_loop_that_polls_the_store_waits_for_any_rank_that_can_act(self) -> None:
        stage = on_stage(2)
        stage.hear(*(asked(0, "check", "ready", site="train.py:7") for _ in range(SURE_POLLS)))
        stage.pass_time(SURE_POLLING)
        assert stage.world.diagnosis is None
        stage.hear(asked(1, "get", "set", site="train.py:8"))
        stage.pass_time(SURE_POLLING)
        assert (diagnosis(stage).kind, diagnosis(stage).cycle) == ("deadlock", None)
        assert diagnosis(stage).summary == (
            "rank 0 waits for a store key, asked for again and again at train.py:7; "
            "rank 1 waits for store key set at train.py:8"
        )

    def test_who_found_the_key_that_it_polled_for_computes(self) -> None:
        stage = on_stage(2)
        stage.hear(*(asked(0, "check", "ready") for _ in range(SURE_POLLS)))
        stage.hear(asked(1, "set", "ready"))
        blocked(stage, 1, 1, recv(source=0))
        stage.hear(asked(0, "check", "ready"))
        stage.pass_time(SURE_POLLING)
        assert stage.world.diagnosis is None


class TestManyRanks:
    @pytest.fixture
    def waits_in_a_row(self) -> Stage:
        """Each rank waits for a message of the next; the last one computes."""
        stage = on_stage(MANY)
        for rank in range(MANY - 1):
            blocked(stage, rank, 1, recv(source=rank + 1))
        return stage

    def test_none_is_stuck_while_the_last_of_a_row_computes(self, waits_in_a_row: Stage) -> None:
        assert stuck_ranks(waits_in_a_row.world) == []

    def test_all_are_stuck_once_the_last_of_a_row_has_ended(self, waits_in_a_row: Stage) -> None:
        waits_in_a_row.hear(Exited(rank=MANY - 1, code=0))
        assert diagnosis(waits_in_a_row).kind == "deadlock"
        assert stuck_ranks(waits_in_a_row.world) == list(range(MANY - 1))

    def test_all_that_wait_for_one_absent_member_are_stuck(self) -> None:
        stage = on_stage(MANY)
        for rank in range(MANY - 1):
            blocked(stage, rank, 1)
        assert stuck_ranks(stage.world) == []
        stage.hear(Exited(rank=MANY - 1, code=0))
        assert diagnosis(stage).summary.startswith(f"ranks 0-{MANY - 2} wait in barrier")
