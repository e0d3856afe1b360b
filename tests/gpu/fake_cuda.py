"""A stand-in for CUDA: tensors of the host count as the device's, and streams keep a log instead of doing work."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from prism.gpu.cuda.driver import Driver
from prism.gpu.cuda.posting_cost import NOTHING, PostingCost

Work = Callable[[], Callable[[], None] | None]
"""Does it, or returns what waits until it can be done."""


class FakeStream:
    """What was put into it, in order; once it has been parked, work is done when somebody waits for it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.log: list[str] = []
        self.due: list[Work] = []
        self._done = 0
        self._lock = threading.Lock()

    def wait_event(self, event: FakeEvent) -> None:
        self.log.append(f"waits for {event.name}")
        event.synchronize()  # as work is done at once here, whoever puts more into the stream has to wait

    def synchronize(self) -> None:
        self.log.append("drained")
        self.advance(len(self.due))

    def put(self, work: Work) -> None:
        if self.due:
            self.due.append(work)
        else:
            work()

    def advance(self, to: int) -> None:
        """Do what was put into it before; where it is parked, wait until it is let go, as others may do meanwhile."""
        while self._done < to:
            with self._lock:
                while self._done < to and (held := self.due[self._done]()) is None:
                    self._done += 1
            if self._done < to:
                held()


@dataclass(eq=False)
class FakeEvent:
    """A point of a stream: after so much of its work."""

    name: str
    stream: FakeStream
    place: int
    at: float
    driver: FakeDriver

    def synchronize(self) -> None:
        self.stream.advance(self.place)

    def query(self) -> bool:
        return self.at <= self.driver.ms

    def elapsed_time(self, other: FakeEvent) -> float:
        return other.at - self.at


class FakeDriver(Driver):
    """Every thread begins on the stream `default`; streams of communicators are c0, c1 and so on."""

    def __init__(self) -> None:
        self.ms = 0.0  # the clock of host and device
        self.free = 0.0  # when the device will have done all it has to do
        self.nccl: PostingCost | None = NOTHING
        self.default = FakeStream("default")
        self.streams: list[FakeStream] = []
        self._local = threading.local()
        self._opened = threading.Condition()

    def holds(self, tensor: torch.Tensor) -> bool:
        return True

    def index(self) -> int:
        return 0

    def stream(self) -> FakeStream:
        self.streams.append(FakeStream(f"c{len(self.streams)}"))
        return self.streams[-1]

    def current(self) -> FakeStream:
        return getattr(self._local, "stream", self.default)

    @contextlib.contextmanager
    def on(self, stream: Any) -> Iterator[None]:
        before, self._local.stream = self.current(), stream
        try:
            yield
        finally:
            self._local.stream = before

    def mark(self, stream: Any, timed: bool = False) -> FakeEvent:
        event = FakeEvent(f"{stream.name}:{len(stream.log)}", stream, len(stream.due), max(self.ms, self.free), self)
        stream.log.append(f"marks {event.name}")
        return event

    def spin(self, event: Any) -> None:
        event.synchronize()

    def pinned(self, nbytes: int) -> torch.Tensor:
        return torch.empty(nbytes, dtype=torch.uint8)

    def drain(self) -> None:
        self.current().synchronize()
        self.ms = max(self.ms, self.free)

    def capturing(self) -> bool:
        return False

    def token(self) -> torch.Tensor:
        return torch.zeros(1)

    def ready(self) -> bool:
        return True

    def now(self) -> int:
        return round(self.ms * 1e6)

    def sleep(self, ns: int) -> None:
        self.work(max(ns, 0) / 1e6)

    def look_at_clock(self) -> None:
        pass

    def work(self, ms: float) -> None:
        """Kernels that take so long are put into the program's stream."""
        self.free = max(self.free, self.ms) + ms

    def posting_cost(self) -> PostingCost:
        if self.nccl is None:
            raise RuntimeError("no NCCL")
        return self.nccl

    def hold(self, stream: Any, number: torch.Tensor, least: int) -> None:
        stream.log.append(f"parks until {least}")

        def until_open() -> None:
            with self._opened:
                self._opened.wait_for(lambda: int(number[0]) >= least)

        stream.due.append(lambda: None if int(number[0]) >= least else until_open)

    def release(self, number: torch.Tensor, value: int) -> None:
        with self._opened:
            number[0] = value
            self._opened.notify_all()

    def copy(self, into: torch.Tensor, source: torch.Tensor) -> None:
        self.current().put(lambda: (into.copy_(source), None)[1])

    def zero(self, tensor: torch.Tensor) -> None:
        tensor.zero_()
