"""Streams and events: a call returns when its work is done, so streams are only names, and events the host's time."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

import torch

from prism.gpu.presented.placement import Placement
from prism.gpu.presented.refused import refuse


class Stream:
    """torch.cuda.Stream and torch.Stream."""

    placement: Placement
    _numbers = itertools.count(1)  # 0 is the default stream

    def __init__(self, device: Any = None, priority: int = 0, *, stream_id: int | None = None, **_: Any) -> None:
        self.device = torch.device("cuda", self.placement.index(device))
        self.priority = priority
        self.stream_id = next(self._numbers) if stream_id is None else stream_id
        self._outer: list[Stream] = []

    @property
    def cuda_stream(self) -> int:
        """A number in the place of the handle."""
        return self.stream_id

    @property
    def device_index(self) -> int:
        """The index of the device."""
        return self.device.index

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Least and greatest priority, as CUDA has them."""
        return 0, -5

    def query(self) -> bool:
        """Whether all work is done: always."""
        return True

    def is_capturing(self) -> bool:
        """Whether a CUDA graph is being captured: never."""
        return False

    def synchronize(self) -> None:
        """Wait for nothing."""

    def wait_event(self, event: Event) -> None:
        """Wait for nothing; what streams depend on is heard of where an event is waited for."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """The same, for all that the other one has to do."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """Record the event, or a new one."""
        event = event or Event()
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        self._outer.append(_CURRENT.stream or Stream(stream_id=0))
        _CURRENT.stream = self
        return self

    def __exit__(self, *error: object) -> None:
        _CURRENT.stream = self._outer.pop()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.device, self.stream_id) == (other.device, other.stream_id)

    def __hash__(self) -> int:
        return hash((self.device, self.stream_id))

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.stream_id:#x}>"


class Event:
    """torch.cuda.Event."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, **_: Any
    ) -> None:
        self._timed = enable_timing
        self._at: int | None = None  # ns

    def record(self, stream: Stream | None = None) -> None:
        """Note the time."""
        self._at = time.perf_counter_ns()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds of the host's clock from this record to the other."""
        if not (self._timed and end_event._timed):
            raise ValueError("an event measures no time, make both with enable_timing=True")
        if self._at is None or end_event._at is None:
            raise ValueError("an event was not recorded, call record() on both first")
        return (end_event._at - self._at) / 1e6

    def query(self) -> bool:
        """Whether the work before it is done: always."""
        return True

    def synchronize(self) -> None:
        """Wait for nothing."""

    def wait(self, stream: Stream | None = None) -> None:
        """Hold no stream."""

    def ipc_handle(self) -> bytes:
        """Needs a real event."""
        refuse("torch.cuda.Event.ipc_handle")


class DeviceEvent(Event):
    """torch.Event, which takes a device first."""

    def __init__(self, device: Any = None, *, enable_timing: bool = False, **options: Any) -> None:
        super().__init__(enable_timing, **options)


class _Current(threading.local):
    stream: Stream | None = None


_CURRENT = _Current()


def current_stream(device: Any = None) -> Stream:
    """The thread's stream."""
    return _CURRENT.stream or Stream(device, stream_id=0)


def default_stream(device: Any = None) -> Stream:
    """The stream of work that names none."""
    return Stream(device, stream_id=0)


def set_stream(stream: Stream | None) -> None:
    """Make it the thread's stream."""
    if stream is not None:
        _CURRENT.stream = stream


class StreamContext:
    """`with torch.cuda.stream(s)`; None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        self._before = current_stream()
        set_stream(self.stream)

    def __exit__(self, *error: object) -> None:
        set_stream(self._before)


def stream_context(stream: Stream | None) -> StreamContext:
    """torch.cuda.stream."""
    return StreamContext(stream)


def install(placement: Placement) -> None:
    """Replace the classes and functions of torch."""
    Stream.placement = placement
    space: Any = torch
    space.Stream, space.Event = Stream, DeviceEvent
    cuda: Any = torch.cuda
    for module in (cuda, cuda.streams):
        module.Stream, module.Event = Stream, Event
    cuda.current_stream, cuda.default_stream, cuda.set_stream = current_stream, default_stream, set_stream
    cuda.stream, cuda.StreamContext = stream_context, StreamContext
