"""What capture asks of CUDA: streams, events, pinned memory. Where there is no GPU a fake of it stands in."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import Any

import torch

from prism.gpu.cuda.gate import hold, zero
from prism.gpu.cuda.posting_cost import PostingCost, of_nccl

MEASURED_CYCLES = 1_000_000
"""Some 0.5 ms: how long a cycle is, is measured by them."""


class Driver:
    """CUDA as torch has it."""

    _cycles_per_ns = 0.0  # 0: not looked at yet

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor lies on a GPU."""
        return tensor.is_cuda

    def index(self) -> int:
        """The number of the device that the program uses now."""
        return torch.cuda.current_device()

    def stream(self) -> Any:
        """A stream of torch's pool, as torch's NCCL backend has one for each communicator."""
        return torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def current(self) -> Any:
        """The stream that this thread puts work into."""
        return torch.cuda.current_stream()

    def on(self, stream: Any) -> AbstractContextManager[Any]:
        """Inside, this thread puts work into the stream."""
        return torch.cuda.stream(stream)

    def mark(self, stream: Any, timed: bool = False) -> Any:
        """An event at the end of what the stream has to do now; who waits for it on the host sleeps."""
        event: Any = torch.cuda.Event(enable_timing=timed, blocking=True)  # type: ignore[no-untyped-call]
        event.of_prism = True
        event.record(stream)
        return event

    def spin(self, event: Any) -> None:
        """Return when the device has come to an event, which it is about to: who sleeps meanwhile wakes up slower."""
        while not event.query():
            pass

    def pinned(self, nbytes: int) -> torch.Tensor:
        """Host memory that the device copies to and from by itself, uint8[nbytes]."""
        return torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)

    def drain(self) -> None:
        """Return when the current stream has done all it has to do."""
        self.mark(self.current()).synchronize()

    def capturing(self) -> bool:
        """Whether the current stream is being captured into a CUDA graph."""
        return torch.cuda.is_current_stream_capturing()

    def token(self) -> torch.Tensor:
        """The one element that torch's NCCL backend sums up as a barrier."""
        return torch.zeros(1, dtype=torch.float32, device="cuda")

    def ready(self) -> bool:
        """Whether the program has used CUDA by now."""
        return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]

    def now(self) -> int:
        """The host's clock, in ns."""
        return time.monotonic_ns()

    def sleep(self, ns: int) -> None:
        """Let the current stream do nothing for so long, or not at all for less than nothing; the host goes on."""
        if ns > 0:
            if not self._cycles_per_ns:
                self.look_at_clock()  # a kernel is loaded
                self.look_at_clock()
            torch.cuda._sleep(round(ns * self._cycles_per_ns))  # type: ignore[no-untyped-call]

    def look_at_clock(self) -> None:
        """Measure how long a cycle is by now, which is what streams sleep by; waits for the current stream."""
        begin = self.mark(self.current(), timed=True)
        torch.cuda._sleep(MEASURED_CYCLES)  # type: ignore[no-untyped-call]
        end = self.mark(self.current(), timed=True)
        end.synchronize()
        ms: float = begin.elapsed_time(end)
        self._cycles_per_ns = MEASURED_CYCLES / (ms * 1e6)

    def posting_cost(self) -> PostingCost:
        """What posting on NCCL holds the host for; raises RuntimeError where that cannot be measured."""
        return of_nccl()

    def hold(self, stream: Any, number: torch.Tensor, least: int) -> None:
        """Let a stream wait until a number in pinned memory is at least so high."""
        hold(stream, number, least)

    def release(self, number: torch.Tensor, value: int) -> None:
        """Set a number in pinned memory that streams wait for."""
        number[0] = value

    def copy(self, into: torch.Tensor, source: torch.Tensor) -> None:
        """Copy on the current stream; the host does not wait."""
        into.copy_(source, non_blocking=True)

    def zero(self, tensor: torch.Tensor) -> None:
        """Set a dense tensor's bytes to 0 on the current stream."""
        zero(tensor, self.current())
