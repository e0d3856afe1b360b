"""The line of a rank whose tensors lie on a GPU."""

from __future__ import annotations

import functools
import os
import zlib
from collections.abc import Sequence
from typing import Any

import msgspec
import torch

from prism.core.calls import Call, Ref
from prism.core.events import Noticed, Staged, Timed
from prism.core.graph import OpKind
from prism.core.instructions import PageIn, PageOut
from prism.core.stage.unmatched import ANY
from prism.gpu.cuda import nvml
from prism.gpu.cuda.ahead import AheadTiming
from prism.gpu.cuda.copies import Copier
from prism.gpu.cuda.device_link import DeviceLink
from prism.gpu.cuda.driver import Driver
from prism.gpu.cuda.gate import Gate
from prism.gpu.cuda.operation import CudaOperation
from prism.gpu.cuda.parked import ParkedOperation
from prism.gpu.cuda.posting_cost import NOTHING, PostingCost
from prism.gpu.cuda.residency import Residency
from prism.gpu.cuda.slots import Slots
from prism.gpu.cuda.stager import Input, Stager
from prism.gpu.cuda.two_threads import TwoThreads
from prism.gpu.cuda.unwaited import Unwaited
from prism.gpu.cuda.watch import ClockWatch
from prism.gpu.group.tensors import nbytes
from prism.gpu.rank.pending import Pending
from prism.net.payloads import Arena


class CudaLink(TwoThreads, Unwaited, DeviceLink):
    """A Link; inputs are brought to the store by a thread of their own, results go from there to the device."""

    def __init__(self, *arguments: Any, driver: Driver | None = None) -> None:
        self.driver = driver or Driver()
        self._stager = Stager(self.driver, self._broke_off)
        self._copier = Copier(self.driver)
        self._gates: dict[Any, Gate] = {}  # by the stream that parks
        self._slots = Slots(self.driver)
        self._timing = AheadTiming(self.driver, self._told, self.own_stream)
        self._watch: ClockWatch | None = None
        self._cost: PostingCost | None = None  # of NCCL's calls, once the program has posted one
        self._batch = 0  # the newest one whose cost has been counted
        self.residency: Residency | None = None
        super().__init__(*arguments)

    @property
    def answered(self) -> bool:
        """Whether everything is answered from the record, so that nobody needs what this rank puts in."""
        return self._answered

    def operation(
        self, stream: Any, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor], call: Call
    ) -> CudaOperation:
        """An operation of the device that is about to be posted."""
        if not self._answered:
            return CudaOperation(self, stream, inputs, outputs, call.peer, call.recv)
        operation = ParkedOperation(self, stream, inputs, outputs, call.peer, call.recv)
        operation.slots = self._slots
        if stream not in self._gates:
            self._gates[stream] = Gate(self.driver)
        operation.gate = self._gates[stream]
        operation.expects = bool(outputs) and self.kept.keeps(call.dtype, nbytes(outputs))
        operation.settled = not operation.expects and not _from_anyone(call)
        return operation

    def read(self, result: Ref | None, at: int, into: memoryview) -> None:
        """Fill memory with the bytes of a result from one on, and with zeros where it has none."""
        there = min(len(into), max(0, result.nbytes - at)) if result is not None else 0
        if result is not None and there:
            self._library.read_into(result.part(at, there), [into[:there]])
        into[there:] = bytes(len(into) - there)

    def reserve(self, size: int, lasting: bool) -> tuple[Arena, Ref]:
        """Room for an input."""
        arena = self.room(size, lasting)
        return arena, arena.reserve(size)

    def bring(self, due: Input, handle: int) -> None:
        """Let the input of a posted operation be brought."""
        self._stager.put(due, functools.partial(self._brought, due.ref, handle))

    def _brought(self, ref: Ref, handle: int) -> None:
        checksum = zlib.crc32(self._library.read(ref)) if self.compares else 0
        self.tell(Staged(rank=self.rank, handle=handle, checksum=checksum))

    def fill(
        self, result: Ref, blocks: Sequence[int], into: Sequence[torch.Tensor], room: Sequence[int], stream: Any
    ) -> None:
        """Let tensors be filled with a result on a stream."""
        self._copier.load(result, self._library, into, blocks, room, stream)

    def page(self, instruction: PageOut | PageIn) -> None:
        """Move the memory of this rank."""
        assert self.residency is not None, "only ranks that can page ask for room, and no other is told to make it"
        self.residency.put(instruction)

    # -- timing, while all is answered from the record ---------------------------------------------------------------

    def begin(self) -> None:
        """The program is about to start."""
        if self._answered:
            self._watch = ClockWatch((nvml.visible(os.environ) or [-1])[0])
        super().begin()

    def arrive(self) -> None:
        """The program has called."""
        super().arrive()
        if self._answered and self.is_program():
            self._timing.call()

    def resume(self) -> None:
        """What follows is the program's own time again."""
        super().resume()
        if self._answered and self.is_program():
            self._timing.resume()

    def post(self, group: str, call: Call, payload: Ref | None, pending: Pending, compute: int, batch: int = 0) -> int:
        """Post an operation; returns its handle at once."""
        if self._answered:
            self._timing.call()
            self._timing.step(self._charge(call.kind, batch) if isinstance(pending, CudaOperation) else 0)
        return super().post(group, call, payload, pending, compute, batch)

    def _wait(self, handles: tuple[int, ...], pending: Sequence[Pending]) -> None:
        """Say that the program waits; while all is answered, that holds streams and not the host."""
        if self._answered:
            self._timing.step(self._cost.wait if self._cost is not None else 0)
        super()._wait(handles, pending)

    def passed(self) -> None:
        """The program's stream goes on from a wait here."""
        if self._answered:
            self._timing.resume()

    def mark(self) -> None:
        """An iteration ends here."""
        if self._answered:
            self._timing.mark()
        super().mark()

    def conclude(self) -> None:
        """The program is over: tell what was timed, and how the device ran."""
        if self._answered:
            self._timing.conclude()
            seen = self._watch.conclude(self.rank) if self._watch is not None else None
            if seen is not None:
                cost, timing = self._cost or NOTHING, self._timing
                self.tell(msgspec.structs.replace(seen, posting=cost.told(), idle=timing.idle, steps=timing.steps))

    def _asks_before(self, pending: Sequence[Pending]) -> bool:
        """Nobody gives up a slot while all is answered."""
        return not self._answered and super()._asks_before(pending)

    def _charge(self, kind: OpKind, batch: int) -> int:
        """The ns for which NCCL's post holds the host; a batch is one launch."""
        if self._cost is None:
            self._cost = self._measured()
        again, self._batch = bool(batch) and batch == self._batch, batch or self._batch
        return 0 if again else self._cost.of(kind)

    def _measured(self) -> PostingCost:
        try:
            return self.driver.posting_cost()
        except RuntimeError as error:
            told = f"what NCCL's calls hold the host for could not be measured, and is left out: {error}"
            self.tell(Noticed(rank=self.rank, kind="posting_cost", summary=told))
            return NOTHING

    def _told(self, first: int, durations: tuple[int, ...], hosts: tuple[tuple[int, int], ...]) -> None:
        self.tell(Timed(rank=self.rank, first=first, durations=durations, hosts=hosts))


def _from_anyone(call: Call) -> bool:
    """Whether the program learns from the answer whose message came."""
    return call.kind is OpKind.SEND_RECV and not call.sends and call.peer == ANY
