"""Operations for which a stream beside the program's own waits: when the program is said to wait for them."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from prism.gpu.group.side_streams import SideStreams, watch
from prism.gpu.presented import streams


class Link:
    """What is waited for, in order."""

    def __init__(self) -> None:
        self.waited: list[tuple[int, ...]] = []
        self.program = True

    def wait(self, handles: tuple[int, ...]) -> None:
        self.waited.append(handles)

    def is_program(self) -> bool:
        return self.program


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The streams and events of a GPU that is not there, for one test."""
    with monkeypatch.context() as patch:
        placement = SimpleNamespace(index=lambda device: 0)
        patch.setattr(streams.Stream, "placement", placement, raising=False)
        for name in ("record", "wait", "synchronize"):
            patch.setattr(streams.Event, name, getattr(streams.Event, name))
        patch.setattr(streams.Stream, "synchronize", streams.Stream.synchronize)
        for name in ("Stream", "Event", "current_stream", "default_stream"):
            patch.setattr(torch.cuda, name, getattr(streams, name))
        patch.setattr(torch.cuda, "stream", streams.stream_context)
        patch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
        patch.setattr(torch.cuda, "is_initialized", lambda: True)
        yield torch.cuda


@pytest.fixture
def link(cuda: Any) -> Link:
    return Link()


@pytest.fixture
def side(link: Link) -> SideStreams:
    watched = SideStreams(link)
    watch(watched)
    return watched


def test_a_wait_in_the_programs_own_stream_is_one(side: SideStreams) -> None:
    assert not side.take((1,))
    assert side.own() is None


def test_the_program_waits_where_its_stream_waits_for_an_event_behind_the_operation(
    side: SideStreams, link: Link, cuda: Any
) -> None:
    beside = cuda.Stream()
    with cuda.stream(beside):
        before = beside.record_event()
        assert side.take((1,))
        assert side.own() == cuda.default_stream()
        behind = beside.record_event()
    cuda.current_stream().wait_event(before)
    assert link.waited == []
    cuda.current_stream().wait_event(behind)
    assert link.waited == [(1,)]
    cuda.current_stream().wait_event(behind)
    assert link.waited == [(1,)]


def test_a_wait_passes_through_other_streams(side: SideStreams, link: Link, cuda: Any) -> None:
    first, second = cuda.Stream(), cuda.Stream()
    with cuda.stream(first):
        assert side.take((1,))
        assert side.take((2,))
    second.wait_stream(first)
    with cuda.stream(second):
        assert side.take((3,))
    assert link.waited == []
    cuda.current_stream().wait_stream(second)
    assert link.waited == [(1, 2, 3)]
    cuda.current_stream().wait_stream(first)
    assert link.waited == [(1, 2, 3)]


@pytest.mark.parametrize("what", ["event", "stream"])
def test_the_host_waits_for_all_of_the_program(side: SideStreams, link: Link, cuda: Any, what: str) -> None:
    beside = cuda.Stream()
    with cuda.stream(beside):
        assert side.take((1,))
        event = beside.record_event()
    (event if what == "event" else beside).synchronize()
    assert link.waited == [(1,)]


def test_an_event_that_is_recorded_again_stands_elsewhere(side: SideStreams, link: Link, cuda: Any) -> None:
    beside, other, event = cuda.Stream(), cuda.Stream(), cuda.Event()
    with cuda.stream(beside):
        assert side.take((1,))
        event.record()
    event.record(other)
    cuda.current_stream().wait_event(event)
    assert link.waited == []


def test_nothing_outlasts_an_iteration_and_the_stream_in_which_it_ends_is_the_programs(
    side: SideStreams, link: Link, cuda: Any
) -> None:
    own = cuda.Stream()
    with cuda.stream(own):
        assert side.take((1,))
        side.settle()
        assert link.waited == [(1,)]
        assert not side.take((2,))
    assert side.take((3,))
    assert side.own() == own


def test_what_prism_does_with_events_is_not_the_programs(side: SideStreams, link: Link, cuda: Any) -> None:
    beside, event = cuda.Stream(), cuda.Event()
    event.of_prism = True
    with cuda.stream(beside):
        assert side.take((1,))
        event.record()
    cuda.current_stream().wait_event(event)
    event.synchronize()
    assert link.waited == []


def test_another_thread_than_the_programs_joins_nothing(side: SideStreams, link: Link, cuda: Any) -> None:
    beside = cuda.Stream()
    with cuda.stream(beside):
        assert side.take((1,))
    link.program = False
    cuda.current_stream().wait_stream(beside)
    assert link.waited == []
    link.program = True
    side.settle()
    assert link.waited == [(1,)]
