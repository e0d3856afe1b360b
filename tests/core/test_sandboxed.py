"""Sandbox ranks repeat what is in the graph, or have diverged; what they tell of their times is kept."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from prism.core.calls import Call, Reply, StoreCall
from prism.core.emulation.sandboxed import Sandboxed, error_vs_replay, iteration_ns, ops_of_posts
from prism.core.events import Clocked, ClockState, Finished, Marked
from prism.core.graph import OpKind
from prism.core.instructions import Answer, Kill, Leave
from prism.core.record import RankRecord
from prism.core.stage.building import build_graph
from tests.core.actors import all_reduce, asked, call, joined, posted, recv, send, waited
from tests.core.captures import capture, post
from tests.core.sandbox_stage import SIZE, Emulated, completed, job


class TestRepeating:
    def test_a_rank_that_does_what_it_did_is_told_nothing(self) -> None:
        emulated = Emulated(0)
        told = emulated.reduces(0)
        told += emulated.hear(completed(0, 1), posted(0, 2, send(to=1)), waited(0, 2, blocks=False))
        told += emulated.hear(posted(0, 3, recv(source=3, tag=5)), completed(0, 3), Marked(rank=0), completed(0, 2))
        assert told == []
        assert emulated.world.ranks[0].open == {}
        assert emulated.hear(Finished(rank=0, code=0)) == [Leave(rank=0)]
        assert emulated.exchange.complete(0)
        assert emulated.world.diagnosis is None

    def test_an_operation_is_open_until_the_rank_has_completed_it(self) -> None:
        emulated = Emulated(0)
        emulated.reduces(0)
        assert list(emulated.world.ranks[0].open) == [1]
        emulated.hear(completed(0, 1))
        assert list(emulated.world.ranks[0].open) == []

    def test_segments_and_the_clock_at_marks_are_kept(self) -> None:
        emulated = Emulated(1)
        for event in (posted(1, 1, all_reduce()), waited(1, 1, blocks=False), posted(1, 2, recv(source=0))):
            emulated.hear(msgspec.structs.replace(event, compute=7))
        emulated.hear(Marked(rank=1, compute=9, wall=1234))
        assert emulated.exchange.segments(1).durations == [7, 7, 7, 9]
        assert emulated.exchange.walls(1) == [1234]

    def test_how_the_device_of_a_rank_ran_is_kept(self) -> None:
        emulated, state = Emulated(1), ClockState(1400, 690, 80)
        seen = Clocked(rank=1, before=state, after=state, throttled=("power cap",))
        emulated.hear(seen)
        assert emulated.exchange.clocks == {1: seen}

    @pytest.mark.parametrize(
        ("of", "difference"),
        [
            (call(OpKind.BROADCAST, root=1), "operation broadcast, not all_reduce"),
            (call(OpKind.ALL_REDUCE, reduce="avg"), "reduction avg, not sum"),
            (Call(OpKind.ALL_REDUCE, "float64", 4, "sum"), "dtype float64, not float32"),
            (all_reduce(8), "elements 8, not 4"),
        ],
    )
    @pytest.mark.parametrize("captured", [range(SIZE), ()])
    def test_another_operation_has_diverged(self, of: Call, difference: str, captured: Sequence[int]) -> None:
        emulated = Emulated(0, captured=captured)
        assert emulated.hear(posted(0, 1, of, site="train.py:5")) == [Kill(rank=0)]
        assert emulated.diverged() == (
            "then all_reduce of 4 x float32 on group default at train.py:1; "
            f"now {of.name} of {of.count} x {of.dtype} on group default at train.py:5 ({difference})"
        )

    @pytest.mark.parametrize(("of", "difference"), [(send(to=2), "peer 2, not 1"), (send(to=1, tag=3), "tag 3, not 0")])
    @pytest.mark.parametrize("captured", [range(SIZE), ()])
    def test_a_message_elsewhere_has_diverged(self, of: Call, difference: str, captured: Sequence[int]) -> None:
        emulated = Emulated(0, captured=captured)
        emulated.reduces(0)
        emulated.hear(posted(0, 2, of))
        assert f"({difference})" in emulated.diverged()

    def test_another_shape_has_diverged_where_the_rank_was_captured(self) -> None:
        of = call(OpKind.ALL_REDUCE, reduce="sum", shape=(2, 2))
        captured, other = Emulated(0), Emulated(0, captured=())
        captured.hear(posted(0, 1, of))
        other.hear(posted(0, 1, of))
        assert "(shape [2, 2], not [])" in captured.diverged()
        assert other.world.diagnosis is None

    def test_a_receive_from_anyone_is_what_a_lane_tells_of_it(self) -> None:
        emulated = Emulated(0, captured=())
        emulated.reduces(0)
        emulated.hear(posted(0, 2, send(to=1)), waited(0, 2, blocks=False), posted(0, 3, recv(tag=9)))
        assert emulated.world.diagnosis is None

    def test_a_group_of_other_ranks_has_diverged(self) -> None:
        emulated = Emulated(0)
        emulated.hear(joined(0, [0, 1]), posted(0, 1, all_reduce()))
        assert "(a group of ranks 0-1, not of ranks 0-3)" in emulated.diverged()

    def test_another_group_has_diverged(self) -> None:
        emulated = Emulated(0)
        emulated.hear(joined(0, range(SIZE), "other"), posted(0, 1, all_reduce(), "other"))
        assert "(group other, not default)" in emulated.diverged()

    def test_a_wait_where_a_post_was_has_diverged(self) -> None:
        emulated = Emulated(0)
        emulated.hear(waited(0, 1, blocks=False, site="train.py:5"))
        assert emulated.diverged().endswith("; now a wait for its operations [1] at train.py:5")

    def test_a_wait_for_something_else_has_diverged(self) -> None:
        emulated = Emulated(0)
        emulated.hear(posted(0, 1, all_reduce()), waited(0, 2, blocks=False))
        assert emulated.diverged() == (
            "then a wait for its operations [1] at train.py:99; now a wait for its operations [2] at ?"
        )

    def test_a_mark_too_early_has_diverged(self) -> None:
        emulated = Emulated(0)
        emulated.hear(Marked(rank=0))
        assert emulated.diverged().endswith("now the end of an iteration")

    def test_more_steps_have_diverged(self) -> None:
        emulated = Emulated(2)
        emulated.reduces(2)
        emulated.hear(Marked(rank=2), posted(2, 2, all_reduce()))
        assert emulated.diagnosis().summary == (
            "rank 2 does not repeat what was captured: then nothing more; "
            "now all_reduce of 4 x float32 on group default at ?"
        )

    def test_fewer_steps_have_diverged(self) -> None:
        emulated = Emulated(0)
        emulated.reduces(0)
        emulated.hear(completed(0, 1), Finished(rank=0, code=0))
        assert emulated.diverged() == (
            "then send of 4 x float32 on group default at train.py:2; now the end of the program"
        )

    @pytest.mark.parametrize("ending", [Finished(rank=0, code=0, cut=True), Finished(rank=0, code=3)])
    def test_a_rank_that_was_cut_or_failed_has_not_diverged(self, ending: Finished) -> None:
        emulated = Emulated(0)
        emulated.reduces(0)
        emulated.hear(completed(0, 1), ending)
        assert emulated.world.diagnosis is None or emulated.diagnosis().kind == "rank_failed"


class TestStore:
    def test_a_captured_rank_gets_what_it_got(self) -> None:
        emulated = _with_replies({0: [(StoreCall("get", ("key",)), Reply(b"recorded"))]}, sandbox=[0])
        assert emulated.ask(asked(0, "get", "key")) == Reply(b"recorded")

    def test_others_find_what_virtual_ranks_put_there(self) -> None:
        virtual = [
            (StoreCall("set", ("key",), b"v"), Reply()),
            (StoreCall("add", ("count",), amount=3), Reply(number=5)),
            (StoreCall("get", ("other",)), Reply(b"w")),
        ]
        emulated = _with_replies({2: virtual}, sandbox=[0, 1])
        assert emulated.ask(asked(0, "get", "key")) == Reply(b"v")
        assert emulated.ask(asked(0, "add", "count", amount=1)) == Reply(number=4)
        assert emulated.ask(asked(1, "get", "other")) is None
        assert emulated.missing(StoreCall("get", ("other",))) == ["other"]

    def test_others_find_what_they_put_there_themselves(self) -> None:
        emulated = Emulated(0, 1, captured=())
        assert emulated.hear(asked(0, "get", "key", number=3)) == []
        told = emulated.hear(asked(1, "set", "key", value=b"v"))
        assert told == [Answer(rank=1, call=1), Answer(rank=0, call=3, value=b"v")]


def _with_replies(replies: dict[int, list[tuple[StoreCall, Reply]]], sandbox: Sequence[int]) -> Sandboxed:
    graph, _ = job()
    return Sandboxed(graph, sandbox, {rank: RankRecord(rank, [], of_rank) for rank, of_rank in replies.items()})


def test_a_post_that_never_completed_has_no_op() -> None:
    made = capture(2, backend="gloo")
    post(made, 0, 1, send(to=1))
    post(made, 0, 2, recv(source=1))
    post(made, 1, 1, send(to=0))
    graph = build_graph(made.records, made.matcher)
    assert ops_of_posts(graph, made.records[0]) == [-1, 0]
    emulated = Sandboxed(graph, [0], {0: made.records[0]})
    emulated.join(joined(0, range(2)))
    assert emulated.post(posted(0, 1, send(to=1))) == emulated.post(posted(0, 2, recv(source=1))) == []
    assert emulated.find(0, 1) is None
    assert emulated.find(0, 2).number == 0


class TestTimes:
    @pytest.mark.parametrize(
        ("warmup", "expected"), [(0, [20, 30, 40]), (1, [20, 30, 40]), (2, [30, 40]), (4, []), (9, [])]
    )
    def test_iterations_after_the_warm_up(self, warmup: int, expected: list[int]) -> None:
        assert iteration_ns([100, 120, 150, 190], warmup) == expected

    def test_a_rank_without_marks_has_no_iterations(self) -> None:
        assert iteration_ns([], 2) == []

    def test_the_error_is_the_median_over_ranks_of_medians(self) -> None:
        emulated = {0: [110, 110, 500], 1: [90], 2: [130], 3: [], 4: [7]}
        replayed = {0: [100, 100], 1: [100], 2: [100], 3: [100], 4: []}
        assert error_vs_replay(emulated, replayed) == pytest.approx(0.1)
        assert error_vs_replay({1: [90]}, replayed) == pytest.approx(-0.1)

    def test_there_is_no_error_without_iterations(self) -> None:
        assert error_vs_replay({0: []}, {0: [1]}) is None
        assert error_vs_replay({0: [1]}, {}) is None
