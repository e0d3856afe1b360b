"""The completer does one thing after another, goes on elsewhere where one has to wait, and tells what fails."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

import pytest

from prism.gpu.rank.completer import Completer

Job = Callable[[], None]


@pytest.fixture
def failures() -> queue.SimpleQueue[BaseException]:
    return queue.SimpleQueue()


@pytest.fixture
def completer(failures: queue.SimpleQueue[BaseException]) -> Completer:
    return Completer(lambda job: job(), failures.put)


def test_a_job_that_waits_for_the_next_one_gets_it_if_it_hands_over(completer: Completer) -> None:
    first, second = threading.Event(), threading.Event()

    def wait() -> None:
        completer.hand_over()
        second.wait()
        first.set()

    completer.put(wait)
    completer.put(second.set)
    assert first.wait(10)


def test_things_are_done_in_order_on_threads_of_its_own(completer: Completer) -> None:
    done: queue.SimpleQueue[tuple[int, bool]] = queue.SimpleQueue()
    for number in range(3):
        completer.put(lambda number=number: done.put((number, completer.here)))
    assert [done.get(timeout=10) for _ in range(3)] == [(0, True), (1, True), (2, True)]
    assert not completer.here


def test_what_fails_is_told_and_is_the_last(completer: Completer, failures: queue.SimpleQueue[BaseException]) -> None:
    after: list[int] = []

    def fail() -> None:
        raise ValueError("no")

    completer.put(fail)
    assert str(failures.get(timeout=10)) == "no"
    completer._thread.join()
    completer.put(lambda: after.append(1))
    assert after == []


def test_handing_over_elsewhere_does_nothing(completer: Completer) -> None:
    thread = completer._thread
    completer.hand_over()
    assert completer._thread is thread
