"""Answers from the record: what was asked decides, and a rank that does something else has diverged."""

from __future__ import annotations

import msgspec
import pytest

from prism.core.calls import Call, Ref, Reply, StoreCall
from prism.core.events import Clocked, ClockState, Marked, Timed
from prism.core.graph import OpKind
from prism.core.record import MarkStep, PostStep, RankRecord, WaitStep
from prism.core.stage.answers import Answers, Diverged
from prism.core.stage.exchange import Done
from tests.core.actors import RESULT, all_reduce, asked, barrier, call, posted, waited


def answers(*steps: PostStep | WaitStep | MarkStep, replies: list[tuple[StoreCall, Reply]] | None = None) -> Answers:
    """Answers to rank 0."""
    return Answers([RankRecord(0, list(steps), replies or [])])


def test_a_post_is_done_at_once_with_the_recorded_result() -> None:
    recorded = PostStep("default", 1, all_reduce(), "train.py:5", result=RESULT, blocks=(4, 8))
    assert answers(recorded).post(posted(0, 1, all_reduce())) == [Done(0, 1, RESULT, (4, 8))]


def test_another_call_has_diverged() -> None:
    recorded = PostStep("default", 1, all_reduce(), "train.py:5")
    text = (
        "rank 0 does not repeat what was captured: then all_reduce of 4 x float32 on group default at train.py:5; "
        "now barrier of 0 x none on group default at train.py:6"
    )
    with pytest.raises(Diverged) as error:
        answers(recorded).post(posted(0, 1, barrier(), site="train.py:6"))
    assert str(error.value) == text


def test_a_wait_for_something_else_has_diverged() -> None:
    with pytest.raises(Diverged, match=r"then the end of an iteration; now a wait for its operations \[1\] at \?"):
        answers(MarkStep()).wait(waited(0, 1))


def saving(handle: int, result: Ref | None = None) -> PostStep:
    """A post on the group of a thread beside the main one, as a checkpoint that is saved meanwhile makes."""
    return PostStep("saving", handle, barrier(), "", result=result, main=False)


def test_posts_of_another_thread_may_come_later_than_in_the_capture() -> None:
    training = [PostStep("default", handle, all_reduce(), "train.py:5") for handle in (1, 3)]
    of = answers(training[0], saving(2, RESULT), training[1], WaitStep((1, 3), "train.py:6"), MarkStep())
    for event in (posted(0, 1, all_reduce(), compute=10), posted(0, 2, all_reduce(), compute=20)):
        of.post(event)
    of.wait(waited(0, 1, 2, compute=30))
    of.mark(Marked(rank=0, compute=40))
    assert not of.complete(0)
    assert of.post(posted(0, 3, barrier(), group="saving", main=False)) == [Done(0, 3, RESULT)]
    assert of.complete(0)
    assert of.segments(0).durations == [10, 0, 20, 30, 40]


def test_posts_of_another_thread_may_come_earlier_than_in_the_capture() -> None:
    of = answers(PostStep("default", 1, all_reduce(), ""), WaitStep((1,), ""), saving(2))
    of.post(posted(0, 1, barrier(), group="saving", main=False))
    of.post(posted(0, 2, all_reduce(), compute=20))
    of.wait(waited(0, 2, compute=30))
    assert of.complete(0)
    assert of.segments(0).durations == [20, 30, 0]


def test_a_callback_may_run_on_the_main_thread_where_it_did_not_in_the_capture() -> None:
    of = answers(PostStep("default", 1, all_reduce(), ""), PostStep("other", 2, all_reduce(), ""), saving(3))
    for handle, group in enumerate(("default", "saving", "other"), start=1):
        of.post(posted(0, handle, barrier() if group == "saving" else all_reduce(), group=group))
    assert of.complete(0)


def test_device_times_belong_to_the_steps_as_they_were_told() -> None:
    of = answers(saving(1), PostStep("default", 2, all_reduce(), ""))
    of.post(posted(0, 1, all_reduce(), compute=10))
    of.post(posted(0, 2, barrier(), group="saving", main=False))
    of.timed(Timed(rank=0, first=0, durations=(7, -1)))
    assert of.segments(0).durations == [0, 7]


def test_the_order_of_one_thread_counts() -> None:
    of = answers(PostStep("default", 1, all_reduce(), ""), PostStep("other", 2, all_reduce(), ""))
    with pytest.raises(Diverged, match=r"then all_reduce .* on group default at \?; now all_reduce .* on group other"):
        of.post(posted(0, 1, all_reduce(), group="other"))
    of = answers(saving(1), MarkStep())
    with pytest.raises(Diverged, match=r"then barrier .* on group saving on another thread; now .* on group default"):
        of.post(posted(0, 1, all_reduce()))


def test_each_call_of_the_store_gets_its_own_reply_whatever_the_order() -> None:
    replies = [(StoreCall("get", (key,)), Reply(key.encode())) for key in "ab"]
    of = answers(replies=replies)
    assert [of.ask(asked(0, "get", key)) for key in "ba"] == [Reply(b"b"), Reply(b"a")]


def test_equal_calls_get_their_replies_in_the_recorded_order() -> None:
    replies = [(StoreCall("check", ("a",)), Reply(present=present)) for present in (False, True)]
    of = answers(replies=replies)
    assert [of.ask(asked(0, "check", "a")) for _ in range(2)] == [Reply(present=False), Reply()]


def test_a_call_of_the_store_past_the_record_has_diverged() -> None:
    with pytest.raises(Diverged, match=r"then nothing more; now get of store key a, b at train.py:5"):
        answers().ask(asked(0, "get", "a", "b", site="train.py:5"))


def test_stores_may_have_other_names_than_in_the_capture() -> None:
    """As those on free ports have; a store that has the same name is the same."""
    kept = [("port 5", "a"), ("port 29500", "b"), ("port 7", "c")]
    of = answers(replies=[(StoreCall("get", ("key",), store=store), Reply(value.encode())) for store, value in kept])
    now = ("port 29500", "port 6", "port 8")
    assert [of.ask(asked(0, "get", "key", store=store)) for store in now] == [Reply(b"b"), Reply(b"a"), Reply(b"c")]
    with pytest.raises(Diverged, match="now get of store key key at"):
        of.ask(asked(0, "get", "key", store="port 9"))


def exchange(*sizes: int) -> Call:
    """An all_to_all whose sizes follow from numbers that the rank has computed."""
    return call(OpKind.ALL_TO_ALL, sum(sizes), send=sizes, recv=(2, 2))


def test_a_result_that_was_not_kept_is_made_up() -> None:
    recorded = PostStep("default", 1, all_reduce(), "train.py:5", source=2, dropped=16)
    assert answers(recorded).post(posted(0, 1, all_reduce())) == [Done(0, 1, None, source=2, synthesised=True)]


def test_sizes_may_differ_once_a_result_was_made_up() -> None:
    made_up = PostStep("default", 1, all_reduce(), "train.py:5", dropped=16)
    then = PostStep("default", 2, exchange(1, 3), "train.py:6", result=RESULT)
    with pytest.raises(Diverged):
        answers(then).post(posted(0, 2, exchange(3, 1)))
    of = answers(made_up, then)
    of.post(posted(0, 1, all_reduce()))
    assert of.post(posted(0, 2, exchange(3, 2))) == [Done(0, 2, RESULT)], "as many are awaited as were then"


def test_what_differs_is_named_where_it_does_not_show() -> None:
    of = answers(PostStep("default", 1, exchange(1, 3), "train.py:6", result=RESULT))
    with pytest.raises(Diverged, match=r"now all_to_all of 4 .*, but with send \(3, 1\) and not \(1, 3\)"):
        of.post(msgspec.structs.replace(posted(0, 1, exchange(3, 1)), site="train.py:6"))


def test_a_device_may_send_other_sizes_than_it_did() -> None:
    """As it adds in another order each time; what is posted is another operation all the same."""
    then = PostStep("default", 1, exchange(1, 3), "train.py:6", result=RESULT)
    settled = msgspec.structs.replace(posted(0, 1, exchange(3, 1)), settled=True)
    assert answers(then).post(settled) == [Done(0, 1, None, synthesised=True)]
    summed = PostStep("default", 1, all_reduce(8), "train.py:6", result=RESULT)
    with pytest.raises(Diverged):
        answers(summed).post(msgspec.structs.replace(posted(0, 1, all_reduce(4)), settled=True))


def test_what_a_rank_makes_up_though_it_is_recorded_makes_sizes_differ_too() -> None:
    then = PostStep("default", 2, exchange(1, 3), "train.py:6", result=RESULT)
    of = answers(PostStep("default", 1, all_reduce(), "train.py:5", result=RESULT), then)
    settled = msgspec.structs.replace(posted(0, 1, all_reduce()), settled=True)
    assert of.post(settled) == [Done(0, 1, None, synthesised=True)]
    assert of.post(posted(0, 2, exchange(3, 2))) == [Done(0, 2, RESULT)]


def test_a_recorded_result_of_another_size_than_is_awaited_gives_way_to_one_that_is_made_up() -> None:
    made_up = PostStep("default", 1, all_reduce(), "train.py:5", dropped=16)
    of = answers(made_up, PostStep("default", 2, all_reduce(8), "train.py:6", result=RESULT))
    of.post(posted(0, 1, all_reduce()))
    assert of.post(posted(0, 2, all_reduce(4))) == [Done(0, 2, None, synthesised=True)]


def test_another_operation_has_diverged_whatever_was_made_up() -> None:
    made_up = PostStep("default", 1, all_reduce(), "train.py:5", dropped=16)
    of = answers(made_up, PostStep("default", 2, all_reduce(), "train.py:6"))
    of.post(posted(0, 1, all_reduce()))
    made_up = r"results were made up before: what capture\.payloads does not keep \(keep all\)"
    with pytest.raises(Diverged, match=made_up):
        of.post(posted(0, 2, barrier()))


def test_what_the_device_timed_counts_instead_of_the_host() -> None:
    exchange = answers(MarkStep(), MarkStep(), MarkStep())
    for compute in (5, 6, 7):
        exchange.mark(Marked(rank=0, compute=compute))
    exchange.timed(Timed(rank=0, first=1, durations=(60, -1)))
    assert exchange.segments(0).durations == [5, 60, 7]


def test_how_the_device_ran_is_kept() -> None:
    exchange, seen = answers(), Clocked(rank=0, before=ClockState(345, 80, 30), after=ClockState(1980, 600, 55))
    exchange.clocked(seen)
    assert exchange.clocks == {0: seen}
