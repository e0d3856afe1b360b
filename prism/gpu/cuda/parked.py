"""An operation that is answered from the record while the program goes on: the device waits for it, the host never.

Its communicator's stream is parked at the post and let go piece by piece as the result comes. So the program runs ahead
of its device as it does in reality, and what its streams do can be timed.
"""

from __future__ import annotations

from prism.core.calls import Ref
from prism.gpu.cuda.gate import Gate
from prism.gpu.cuda.operation import CudaOperation
from prism.gpu.cuda.slots import Chunk, Slots, fill


class ParkedOperation(CudaOperation):
    """One operation; `gate` is its communicator's. `expects`: whether the record has its result."""

    gate: Gate
    slots: Slots
    expects = False
    _chunks: list[Chunk]

    def begin(self) -> None:
        """It has been posted: the stream waits for the post, then for the result; the future is done, as NCCL's is."""
        self._device_link.note(self.handle)
        with self._driver.on(self._stream):
            self._stream.wait_event(self._posted)
            self._chunks = self.slots.expect(self.outputs, self.gate, self._stream) if self.expects else []
            if not self.expects and self.stand_in is not None:
                self.stand_in()
            if self.unpack is not None:
                self.unpack()
            self._filled = self._driver.mark(self._stream)
            self._complete()
        self._enqueued.set()

    def deliver(self, result: Ref | None, blocks: tuple[int, ...] = (), source: int = -1) -> None:
        """The result is known: bring it to the stream, which goes on with it."""
        self._enqueued.wait()
        self.source = source if source >= 0 else self.source
        if result is not None and blocks:
            placed = self._placed(result, blocks)
            fill(self._chunks, self.gate, lambda at, into: into.__setitem__(slice(None), placed[at : at + len(into)]))
        else:
            fill(self._chunks, self.gate, lambda at, into: self._device_link.read(result, at, into))

    def synthesise(self, source: int = -1) -> None:
        """The result was not kept; who expected one nevertheless gets zeros."""
        self.deliver(None, (), source)

    def join(self) -> None:
        """Nobody is held on the host."""

    def _placed(self, result: Ref, blocks: tuple[int, ...]) -> bytearray:
        """A result whose blocks do not fill their room, as it lies in the outputs."""
        size = self.outputs[0].element_size()
        placed, at, begin = bytearray(sum(self.room) * size), 0, 0
        for block, elements in zip(blocks, self.room, strict=True):
            self._device_link.read(result.part(at, block), 0, memoryview(placed)[begin : begin + block])
            at, begin = at + block, begin + elements * size
        return placed

    def _complete(self) -> None:
        completion, self.completion = self.completion, None
        assert completion is not None, f"operation {self.handle} begins twice"
        completion.complete(self.outputs)
        self.stand_in = None
        if self.batch is not None:
            self.batch.one_done()
