"""What the kernel tells of a process: one that computes is starved at worst, one that is stopped is not."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from prism.gpu.processes import proc, vitals
from prism.gpu.processes.vitals import LOOKS, Vitals


@contextmanager
def stopped(count: int) -> Iterator[list[int]]:
    """So many processes that are stopped."""
    children = []
    for _ in range(count):
        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
            os._exit(0)
        children.append(child)
    try:
        for child in children:
            assert os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1])
        yield children
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def test_who_computes_can_only_be_starved_and_who_is_stopped_is_not() -> None:
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    try:
        assert os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1])
        assert proc.is_stopped(child)
        assert not proc.is_starved(child)
        assert proc.is_starved(os.getpid())
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert not proc.is_starved(child)


def test_all_that_are_stopped_are_named_and_nobody_too_soon() -> None:
    with stopped(2) as (one, other):
        named, looking = {"one": one, "me": os.getpid(), "other": other}, Vitals()
        assert [looking.look(named) for _ in range(LOOKS - 1)] == [[]] * (LOOKS - 1)
        assert looking.look(named) == ["one", "other"]


def test_who_goes_on_is_looked_at_anew() -> None:
    with stopped(1) as (child,):
        named, looking = {"child": child}, Vitals()
        for _ in range(LOOKS - 1):
            looking.look(named)
        looking.look({})
        assert [looking.look(named) for _ in range(LOOKS - 1)] == [[]] * (LOOKS - 1)
        assert looking.look(named) == ["child"]


def test_many_are_looked_at_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vitals, "AT_A_TIME", 1)
    with stopped(1) as (child,):
        named, looking = {"me": os.getpid(), "child": child, "also me": os.getpid()}, Vitals()
        looks = [looking.look(named) for _ in range(3 * LOOKS)]
        assert looks.index(["child"]) == 3 * (LOOKS - 1) + 1


def test_what_threads_wait_in_is_known_for_each_machine_by_its_own_numbers() -> None:
    assert proc.WAITING["x86_64"] != proc.WAITING["aarch64"]
    assert 202 in proc.WAITING["x86_64"], "futex, <asm/unistd_64.h>"
    assert 98 in proc.WAITING["aarch64"], "futex, <asm-generic/unistd.h>"
    assert proc.unknown_machine() == ""


def test_a_machine_whose_numbers_are_not_known_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "WAITING_CALLS", frozenset())
    assert "are not known; ranks run on x86_64 and aarch64" in proc.unknown_machine()
