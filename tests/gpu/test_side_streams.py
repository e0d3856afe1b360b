"""Operations for which a stream beside the program's own waits: when the program is said to wait for them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from prism.core.calls import Call
from prism.core.events import Posted, Waited
from prism.core.graph import OpKind
from prism.core.record import PostStep
from prism.core.stage.kept import Kept
from prism.gpu.group.side_streams import SideStreams
from prism.gpu.group.stream_calls import watch
from prism.gpu.presented import streams
from tests.gpu.cuda_stage import on_stage
from tests.gpu.test_cuda_capture import floats
from tests.gpu.test_paced_link import on_stage as on_paced_stage


class Link:
    """What is waited for, in order."""

    def __init__(self) -> None:
        self.waited: list[tuple[int, ...]] = []
        self.streams: list[Any] = []  # in which it was waited
        self.resumed = 0
        self.program = True

    def wait(self, handles: tuple[int, ...]) -> bool:
        self.waited.append(handles)
        self.streams.append(torch.cuda.current_stream())
        return True

    def resume(self) -> None:
        self.resumed += 1

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
        patch.setattr(torch.cuda, "synchronize", lambda device: None)
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
    """After a first iteration, which ended in the default stream."""
    watched = SideStreams(link)
    watch(watched)
    watched.settle()
    return watched


def test_a_wait_in_the_programs_own_stream_is_one(side: SideStreams) -> None:
    assert not side.take((1,))
    assert side.own() is None


def test_before_an_iteration_has_ended_no_stream_is_beside_another(link: Link, cuda: Any) -> None:
    side = SideStreams(link)
    with cuda.stream(cuda.Stream()):
        assert not side.take((1,))
        assert side.own() is None


def test_who_waits_in_its_own_stream_as_well_need_not_wait_again(side: SideStreams, link: Link, cuda: Any) -> None:
    beside = cuda.Stream()
    with cuda.stream(beside):
        assert side.take((1,))
    assert not side.take((1,))
    cuda.current_stream().wait_stream(beside)
    side.settle()
    assert link.waited == []


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


@pytest.mark.parametrize("what", ["event", "stream", "device"])
def test_the_host_waits_for_all_of_the_program(side: SideStreams, link: Link, cuda: Any, what: str) -> None:
    beside = cuda.Stream()
    with cuda.stream(beside):
        assert side.take((1,))
        event = beside.record_event()
    {"event": event.synchronize, "stream": beside.synchronize, "device": cuda.synchronize}[what]()
    assert (link.waited, link.resumed) == ([(1,)], 1)


def test_the_program_is_said_to_wait_before_its_stream_does_and_goes_on_after_that(
    side: SideStreams, link: Link, cuda: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    monkeypatch.setattr(link, "wait", lambda handles: order.append("told"))
    monkeypatch.setattr(link, "resume", lambda: order.append("goes on"))
    monkeypatch.setattr(streams.Event, "wait", lambda event, stream: order.append("waits"))
    watch(side)
    beside = cuda.Stream()
    with cuda.stream(beside):
        assert side.take((1,))
    cuda.current_stream().wait_stream(beside)
    cuda.current_stream().wait_stream(beside)
    assert order == ["told", "waits", "goes on", "waits"]


def test_calls_take_what_they_took(side: SideStreams, link: Link, cuda: Any) -> None:
    beside, event = cuda.Stream(), cuda.Event()
    with cuda.stream(beside):
        assert side.take((1,))
    event.record(stream=beside)
    event.wait(stream=cuda.current_stream())
    cuda.synchronize(device=0)
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


def test_the_program_waits_in_its_own_stream_whichever_is_the_current_one(
    side: SideStreams, link: Link, cuda: Any
) -> None:
    own, beside = cuda.current_stream(), cuda.Stream()
    with cuda.stream(beside):
        assert side.take((1,))
        own.wait_stream(beside)
    assert (link.waited, link.streams) == ([(1,)], [own])


def test_nothing_is_kept_of_an_iteration_that_has_ended(side: SideStreams, link: Link, cuda: Any) -> None:
    for handle in range(3):
        beside = cuda.Stream()
        with cuda.stream(beside):
            assert side.take((handle,))
            event = beside.record_event()
        side.settle()
        cuda.current_stream().wait_event(event)
    assert (side._before, link.waited) == ({}, [(0,), (1,), (2,)])


def test_nothing_refers_weakly_to_an_event(side: SideStreams, cuda: Any) -> None:
    beside = cuda.Stream()
    with cuda.stream(beside):
        assert side.take((1,))
        event = beside.record_event()
    cuda.current_stream().wait_event(event)
    assert weakref.getweakrefcount(event) == 0, "torch 2.11 leaves such references when the event goes"


def test_who_has_waited_in_its_own_stream_waits_no_more_in_another(side: SideStreams, link: Link, cuda: Any) -> None:
    assert not side.take((1,))
    beside = cuda.Stream()
    with cuda.stream(beside):
        assert side.take((1, 2))
    cuda.current_stream().wait_stream(beside)
    with cuda.stream(beside):
        assert side.take((1, 2))
    side.settle()
    assert link.waited == [(2,)]


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


def said_in_an_iteration(link: Any, line: Any, posts: dict[str, Callable[[], Any]], cuda: Any) -> list[str]:
    """What a rank says of a program that posts and waits in two streams."""
    link.side_streams = SideStreams(link)
    watch(link.side_streams)
    link.settle_streams()
    beside = cuda.Stream()
    with cuda.stream(beside):
        for post in ("sum", "sum", "barrier"):
            posts[post]().wait()
            link.resume()
    posts["sum"]().wait()
    link.resume()
    cuda.current_stream().wait_stream(beside)
    link.settle_streams()
    link.mark()
    told = [line.hear(Posted) for _ in range(4)], [line.hear(Waited) for _ in range(3)]
    assert not [event for event in line.said() if isinstance(event, Posted | Waited)]
    return [f"post {one.handle}" for one in told[0]] + [f"wait {one.handles}" for one in told[1]]


@pytest.mark.parametrize("kind", ["answered", "paced"])
def test_ranks_say_alike_of_streams_whoever_answers_them(
    kind: str, cuda: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SideStreams, "own", lambda streams: None)  # the fake device has streams of its own
    if kind == "answered":
        with on_stage(tmp_path, answered=True, kept=Kept(payloads="none")) as stage:
            posts = {"sum": lambda: stage.group.allreduce([floats(1)]), "barrier": stage.group.barrier}
            said = said_in_an_iteration(stage.link, stage.line, posts, cuda)
    else:
        options = dist.BarrierOptions()
        options.asyncOp = True
        steps = [PostStep("default", number, Call(OpKind.ALL_REDUCE), "") for number in range(1, 5)]
        with on_paced_stage(tmp_path, *steps) as paced:
            posts = {
                "sum": lambda: paced.all_reduce(floats(1), in_line=False),
                "barrier": lambda: paced.group.barrier(options),
            }
            said = said_in_an_iteration(paced.link, paced.line, posts, cuda)
    assert said == ["post 1", "post 2", "post 3", "post 4", "wait (3,)", "wait (4,)", "wait (1, 2)"]
