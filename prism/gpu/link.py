"""A rank's line to its worker: posts and waits go out, results and permissions come in.

Three threads. The *main* thread runs the program; it posts without waiting, and where it must wait it says so and goes
on only when told to (Run, or the store's Answer): that is how a rank gives up its slot. The *reader* takes in frames
and never touches a tensor. The *completer* copies results, completes futures and does folds; callbacks of futures run
on it, and one that waits hands the queue to a fresh completer first, so results keep coming.
"""

from __future__ import annotations

import contextlib
import functools
import os
import queue
import socket
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import torch

from prism.core.events import (
    Answer,
    AnyInstruction,
    Asked,
    Broke,
    Call,
    Deliver,
    Delivered,
    Event,
    Fold,
    Folded,
    Joined,
    Leave,
    Marked,
    Polled,
    Posted,
    Ref,
    Release,
    Run,
    StoreCall,
    Waited,
)
from prism.core.stage.kept import Kept
from prism.gpu.callsite import callsite
from prism.gpu.fold import fold
from prism.gpu.tensors import load, load_blocks, save
from prism.net.frames import Unpacker, pack
from prism.net.payloads import Arena, Library

COMPLETER = "prism-completer"


class Pending(Protocol):
    """What the link needs of an operation that was posted; its result fills `outputs`."""

    outputs: list[torch.Tensor]

    def deliver(self, result: Ref | None, blocks: tuple[int, ...], source: int) -> None:
        """Copy the result, which a message's sender `source` sent, and complete the future."""

    def synthesise(self, source: int) -> None:
        """Make up a result that nobody has kept, and complete the future."""

    def done(self) -> bool:
        """Whether the result is there."""

    def join(self) -> None:
        """Return when the result is there; raises what the operation failed with."""


class Link:
    """The connection of one rank; `scratch` holds what is spent once it is read, `record` what `kept` keeps.

    `answered`: everything is answered from the record, so that nobody needs what this rank puts in.
    """

    def __init__(
        self, rank: int, line: socket.socket, scratch: Path, record: Path, stage: str, answered: bool, kept: Kept
    ) -> None:
        self.rank = rank
        self.kept = kept
        self.synthesises = answered and kept.payloads != "all"  # whether results may have to be made up
        owner = f"{stage}-{rank}-{os.getpid()}"
        self._line = line
        self._answered = answered
        self._scratch = Arena(scratch, f"{owner}-input")
        self._record = Arena(record, f"{owner}-result")
        self._library = Library(scratch, record)
        self._pending: dict[int, Pending] = {}
        self._handles = 0
        self._batches = 0
        self._sending = threading.Lock()
        self._calls = 0
        self._work: queue.SimpleQueue[Deliver | Fold] = queue.SimpleQueue()
        self._go: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._answers: dict[int, queue.SimpleQueue[Answer]] = {}  # by the number of the store call
        self._leave = threading.Event()
        self._main = threading.get_ident()
        self._completer: threading.Thread | None = None
        self.slowdown = 1.0  # what the program's compute takes longer by: a fault
        self._resumed = time.monotonic_ns()
        threading.Thread(target=self._read, name="prism-reader", daemon=True).start()
        self._start_completer()

    # -- the program's side ------------------------------------------------------------------------------------------

    def join(self, group: str, ranks: tuple[int, ...], backend: str) -> None:
        """Tell of a process group."""
        with self._excused():
            self._send(Joined(rank=self.rank, group=group, ranks=ranks, backend=backend))

    def save(self, inputs: Sequence[torch.Tensor], lasting: bool) -> Ref | None:
        """Put an input, as it is now, where others read it; a lasting one is a result too, and stays in the record."""
        return None if self._answered else save(inputs, self._record if lasting else self._scratch)

    def _home(self, dtype: str, nbytes: int) -> Arena:
        """Where a result belongs."""
        return self._record if self.kept.keeps(dtype, nbytes) else self._scratch

    def load(self, result: Ref, blocks: Sequence[int], into: Sequence[torch.Tensor], room: Sequence[int]) -> None:
        """Fill tensors with a result, in blocks that do not fill their room where such are given."""
        if blocks:
            load_blocks(result, self._library, blocks, into, room)
        else:
            load(result, self._library, into)

    def post(self, group: str, call: Call, payload: Ref | None, pending: Pending, compute: int, batch: int = 0) -> int:
        """Post an operation; returns its handle at once."""
        site = callsite()
        with self._sending:
            self._handles += 1
            handle = self._handles
            self._pending[handle] = pending
            event = Posted(
                rank=self.rank, group=group, handle=handle, call=call, payload=payload, site=site,
                compute=compute, batch=batch,
            )  # fmt: skip
            self._line.sendall(pack(event))
        self._hand_over()  # a callback that posts may wait for the future, where nobody sees it
        return handle

    @property
    def completing(self) -> bool:
        """Whether this thread is one of ours, on which callbacks run."""
        return threading.current_thread().name == COMPLETER

    def next_batch(self) -> int:
        """A number for a batch of posts, from 1."""
        self._batches += 1
        return self._batches

    def wait(self, handles: tuple[int, ...]) -> None:
        """Wait for operations; on the main thread the slot is given up until they are done and it may go on."""
        pending = [p for h in handles if (p := self._pending.get(h)) is not None]
        if threading.get_ident() == self._main:
            compute = self.lap()
            blocks = self._asks_before(pending)
            self._send(Waited(rank=self.rank, handles=handles, blocks=blocks, site=callsite(), compute=compute))
            if blocks:
                self._go.get()
        else:
            self._hand_over()
        for operation in pending:
            operation.join()
        self.resume()

    def _asks_before(self, pending: Sequence[Pending]) -> bool:
        """Whether to give up the slot before these are waited for, and go on only when told to."""
        return not all(p.done() for p in pending)

    def poll(self, handle: int) -> bool:
        """Whether an operation is done; where it is not, others run first."""
        pending = self._pending.get(handle)
        if pending is None or pending.done():
            return True
        if threading.get_ident() == self._main:
            with self._excused():
                self._send(Polled(rank=self.rank, handle=handle, site=callsite()))
                self._go.get()
        return pending.done()

    def ask(self, call: StoreCall) -> Answer:
        """Call the store; returns when it answers. Raises RuntimeError if the store refuses."""
        arrival: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        with self._sending:
            self._calls += 1
            number = self._calls
            self._answers[number] = arrival
        main = threading.get_ident() == self._main
        self._hand_over()
        with self._excused():
            self._send(Asked(rank=self.rank, request=call, number=number, main=main, site=callsite()))
            answer = arrival.get()
        if answer.error:
            raise RuntimeError(answer.error)
        return answer

    def mark(self) -> None:
        """An iteration ends here."""
        self._send(Marked(rank=self.rank, compute=self.lap()))
        self.resume()

    def tell(self, event: Event) -> None:
        """Say anything else."""
        self._send(event)

    def lap(self) -> int:
        """The ns that the main thread has computed since it was last resumed; 0 on other threads."""
        if threading.get_ident() != self._main:
            return 0
        if self.slowdown > 1:
            time.sleep((time.monotonic_ns() - self._resumed) * (self.slowdown - 1) / 1e9)
        return time.monotonic_ns() - self._resumed

    def resume(self) -> None:
        """What follows is the program's own time again."""
        if threading.get_ident() == self._main:
            self._resumed = time.monotonic_ns()

    def begin(self) -> None:
        """The program is about to start."""
        self.resume()

    def excuse(self, duration: int) -> None:
        """So many ns of the program's time were PRISM's."""
        if threading.get_ident() == self._main:
            self._resumed += duration

    @contextlib.contextmanager
    def _excused(self) -> Iterator[None]:
        """What happens inside is not the program's time, and what came before goes on afterwards."""
        start = time.monotonic_ns()
        try:
            yield
        finally:
            self.excuse(time.monotonic_ns() - start)

    def until_leave(self) -> None:
        """Return when the rank may exit."""
        self._leave.wait()

    # -- the other threads -------------------------------------------------------------------------------------------

    def _send(self, event: Event) -> None:
        data = pack(event)
        with self._sending:
            self._line.sendall(data)

    def _read(self) -> None:
        try:
            self._serve_instructions()
        finally:
            os._exit(1)  # the worker is gone, and with it the run

    def _serve_instructions(self) -> None:
        frames: Unpacker[AnyInstruction] = Unpacker(AnyInstruction)
        while data := self._line.recv(1 << 16):
            for instruction in frames.feed(data):
                match instruction:
                    case Deliver() | Fold():
                        self._work.put(instruction)
                    case Run():
                        self._go.put(None)
                    case Answer(call=number):
                        self._answers.pop(number).put(instruction)
                    case Release(payload=payload):
                        self._scratch.release(payload)
                    case Leave():
                        self._leave.set()

    def _start_completer(self) -> None:
        self._completer = threading.Thread(target=self._complete, name=COMPLETER, daemon=True)
        self._completer.start()

    def _hand_over(self) -> None:
        """If this is the completer, let another thread complete: this one is about to wait, or may be."""
        if threading.current_thread() is self._completer:
            self._start_completer()

    def _complete(self) -> None:
        try:
            self._serve_completions()
        except BaseException as error:  # ours: nobody would wait for this thread, and the program would wait for ever
            traceback.print_exc()
            self._send(Broke(rank=self.rank, reason=f"{type(error).__name__}: {error}"))

    def _serve_completions(self) -> None:
        while threading.current_thread() is self._completer:
            item = self._work.get()
            if isinstance(item, Fold):
                results, parts = fold(item, self._library, functools.partial(self._home, item.dtype))
                self._send(Folded(rank=self.rank, op=item.op, results=results, parts=parts))
            else:
                if item.synthesised:
                    self._pending[item.handle].synthesise(item.source)
                else:
                    self._pending[item.handle].deliver(item.result, item.blocks, item.source)
                del self._pending[item.handle]
                self._tell_done(item.handle)

    def _tell_done(self, handle: int) -> None:
        self._send(Delivered(rank=self.rank, handle=handle))


def connect(path: Path) -> socket.socket:
    """The rank's socket to its worker."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    line.connect(str(path))
    return line
