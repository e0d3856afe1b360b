"""The link of a rank to the others: posts and waits go out, results and permissions come in.

Three threads. The *main* thread runs the program; it posts without waiting, and where it must wait it says so and goes
on only when told to (Run, or the store's Answer): that is how a rank gives up its slot. The *reader* takes in frames
(prism.gpu.rank.line). The *completer* (prism.gpu.rank.completer) copies results, completes futures and does folds while
the main thread computes; while that is held, it does so itself, except where a callback of the program might run.
"""

from __future__ import annotations

import functools
import os
import socket
import threading
import traceback
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from prism.core.calls import Call, Ref, StoreCall
from prism.core.events import Asked, Broke, Delivered, Event, Folded, Joined, Marked, Polled, Posted, Waited
from prism.core.instructions import Answer, AnyInstruction, Deliver, Fold, PageIn, PageOut, Release, Spill
from prism.core.laps import LapEnd
from prism.core.stage.kept import Kept
from prism.exhaustion import Exhausted
from prism.gpu.group.fold import fold
from prism.gpu.group.side_streams import SideStreams
from prism.gpu.processes.host_memory import HostMemory
from prism.gpu.rank.callsite import callsite
from prism.gpu.rank.completer import Completer
from prism.gpu.rank.laps import Laps
from prism.gpu.rank.line import Line
from prism.gpu.rank.payloads import RankPayloads
from prism.gpu.rank.pending import Pending
from prism.gpu.rank.stopwatch import Stopwatch
from prism.net.frames import pack


class Link(RankPayloads, Line, Stopwatch):
    """The connection of one rank, and its payloads.

    `answered`: everything is answered from the record, so that nobody needs what this rank puts in.
    """

    face_on_gpu = "prism.gpu.cuda.face"  # the module that shows communicators of tensors on a GPU to torch

    def __init__(
        self,
        rank: int,
        line: socket.socket,
        scratch: Path,
        record: Path,
        stage: str,
        answered: bool,
        kept: Kept,
        memory: HostMemory | None = None,
    ) -> None:
        Line.__init__(self, rank, line)
        Stopwatch.__init__(self)
        RankPayloads.__init__(self, scratch, record, f"{stage}-{rank}-{os.getpid()}", kept)
        self._memory = memory
        self.synthesises = answered and kept.payloads != "all"  # whether results may have to be made up
        self._answered = answered
        self._pending: dict[int, Pending] = {}
        self._handles = 0
        self._batches = 0
        self._awaited = False  # whether the main thread will wait at once for what it is about to post
        self.compares = False  # whether to tell a checksum of what the program puts in
        self.laps: Laps | None = None  # what is noted of the rank's memory
        self.side_streams: SideStreams | None = None  # where the program has streams
        self._completer = Completer(self._complete, self._broke_off)
        self._listen()

    # -- the program's side ------------------------------------------------------------------------------------------

    def join(self, group: str, ranks: tuple[int, ...], backend: str) -> None:
        """Tell of a process group."""
        with self.excused():
            self.tell(Joined(rank=self.rank, group=group, ranks=ranks, backend=backend))

    def save(self, inputs: Sequence[torch.Tensor], lasting: bool) -> Ref | None:
        """Put an input, as it is now, where others read it; a lasting one is a result too, and stays in the record."""
        self.refuse_forked()
        if self._answered:
            return None
        try:
            return self.put(inputs, lasting)
        except Exhausted as error:  # the run's trouble, whatever the program makes of it
            self.tell(Broke(rank=self.rank, reason=str(error)))
            raise

    def arrive(self) -> None:
        """The program has called."""
        super().arrive()
        self.announce(awaited=False)

    def announce(self, awaited: bool) -> None:
        """Whether the program will wait for what it is about to post, as soon as it is posted."""
        if self.is_program():
            self._awaited = awaited

    def post(self, group: str, call: Call, payload: Ref | None, pending: Pending, compute: int, batch: int = 0) -> int:
        """Post an operation; returns its handle at once."""
        site = self._site()
        checksum = zlib.crc32(self._library.read(payload)) if self.compares and payload and pending.staged else 0
        with self._sending:
            self._handles += 1
            handle = self._handles
            if not pending.settled:
                self._pending[handle] = pending
            if self.laps is not None:
                self.laps.note(LapEnd.POST)
            event = Posted(
                rank=self.rank, group=group, handle=handle, call=call, payload=payload, site=site,
                compute=compute, batch=batch, staged=pending.staged, checksum=checksum,
                main=self.is_program(), settled=pending.settled,
            )  # fmt: skip
            if pending.settled or (self._awaited and event.main):
                self._keep(pack(event))  # nobody answers, or the wait follows and is said together with it
            else:
                self._send(pack(event))
        self._completer.hand_over()  # a callback that posts may wait for the future, where nobody sees it
        return handle

    def _site(self) -> str:
        """Where the program is."""
        return callsite()

    @property
    def completing(self) -> bool:
        """Whether this thread is a completer, on which callbacks run."""
        return self._completer.here

    def next_batch(self) -> int:
        """A number for a batch of posts, from 1."""
        self._batches += 1
        return self._batches

    def wait(self, handles: tuple[int, ...], in_stream: bool = False) -> bool:
        """Wait for operations; on the main thread the slot is given up until they are done and it may go on.

        `in_stream`: the current stream waits, and not the host. If it is one beside the program's own, that is no step:
        the program waits when its own stream joins it. Returns whether it was one.
        """
        pending = [p for h in handles if (p := self._pending.get(h)) is not None]
        if not self.is_program():
            self._completer.hand_over()
        elif in_stream and self.side_streams is not None and self.side_streams.take(handles):
            self._wait_beside(handles, pending)
            return False
        else:
            self._wait(handles, pending)
        for operation in pending:
            operation.join()
        self.resume()
        return True

    def _wait(self, handles: tuple[int, ...], pending: Sequence[Pending]) -> None:
        """Say that the program waits, and hear that it may go on where that has to be heard."""
        compute = self.lap()
        blocks = self._asks_before(pending)
        waited = Waited(rank=self.rank, handles=handles, blocks=blocks, site=self._site(), compute=compute)
        if blocks:
            self._give_way(waited)
        else:
            (self.keep if self._may_keep(pending) else self.tell)(waited)

    def _wait_beside(self, handles: tuple[int, ...], pending: Sequence[Pending]) -> None:
        """Hold the program only where it would be held in its own stream as well; it computes on."""
        with self.excused():
            if self._asks_before(pending):
                self._give_way(Waited(rank=self.rank, handles=handles, blocks=True, site=self._site(), beside=True))
            elif pending:
                self._speak()
            for operation in pending:
                operation.join()

    def _give_way(self, waited: Waited) -> None:
        """Give up the slot, once it is told what memory is held meanwhile."""
        if self._memory is not None and (weighed := self._memory.weigh()) is not None:
            self.tell(weighed)
        self.hold(waited)

    def _asks_before(self, pending: Sequence[Pending]) -> bool:
        """Whether to give up the slot before these are waited for, and go on only when told to."""
        return not all(p.done() for p in pending)

    def _may_keep(self, pending: Sequence[Pending]) -> bool:
        """Whether nobody waits to hear of a wait for these: what it waits for was kept too, and goes before it."""
        return self._answered and bool(self._kept) and not pending

    def poll(self, handle: int) -> bool:
        """Whether an operation is done; where it is not, others run first."""
        pending = self._pending.get(handle)
        if pending is None or pending.done():
            return True
        if self.is_program():
            with self.excused():
                self.hold(Polled(rank=self.rank, handle=handle, site=self._site()))
        return pending.done()

    def ask(self, call: StoreCall) -> Answer:
        """Call the store; returns when it answers. Raises RuntimeError if the store refuses."""
        number, main = self._next_call(), self.is_program()
        self._completer.hand_over()
        with self.excused():
            asked = Asked(rank=self.rank, request=call, number=number, main=main, site=self._site())
            answer = self.hold(asked) if main else self._await_answer(number, asked)
        assert isinstance(answer, Answer), f"{answer} is no answer of the store"
        if answer.error:
            raise RuntimeError(answer.error)
        return answer

    def own_stream(self) -> Any:
        """The stream in which the program computes, where its current one is another; else None."""
        return self.side_streams.own() if self.side_streams is not None else None

    def settle_streams(self) -> None:
        """An iteration ends next, or the program: all that was waited for in streams beside its own is."""
        if self.side_streams is not None:
            self.side_streams.settle()

    def mark(self) -> None:
        """An iteration ends here."""
        if self.laps is not None:
            self.laps.note(LapEnd.MARK)
        self.tell(Marked(rank=self.rank, compute=self.lap()))
        self.resume()

    def conclude(self) -> None:
        """The program is over: say what is still to be said of it."""

    def begin(self) -> None:
        """The program is about to start."""
        self.resume()

    def page(self, instruction: PageOut | PageIn) -> None:
        """Move the memory of the device; where there is none, nobody asks for it."""
        raise AssertionError(f"{instruction} for a rank without a GPU")

    # -- the other threads -------------------------------------------------------------------------------------------

    def _obey(self, instruction: AnyInstruction) -> None:
        match instruction:
            case Deliver(result=None, synthesised=False) if self._may_do(instruction):
                self._complete(instruction)
            case Deliver() | Fold():
                self._completer.put(instruction)
            case Spill():
                assert self._memory is not None, "only ranks of a capture are told to spill"
                self.tell(self._memory.spill())
            case PageOut() | PageIn():
                self.page(instruction)
            case Release(payload=payload):
                self._passing.release(payload)

    def _may_do(self, instruction: AnyInstruction) -> bool:
        plain = isinstance(instruction, Deliver) and not self._pending[instruction.handle].watched
        return plain or isinstance(instruction, Fold)

    def _do(self, instruction: AnyInstruction) -> None:
        assert isinstance(instruction, Deliver | Fold)
        try:
            self._complete(instruction)
        except BaseException as error:
            self._broke_off(error)
            threading.Event().wait()  # the run is over, and this process with it

    def _complete(self, item: Deliver | Fold) -> None:
        done = self._carry_out(item)
        (self.keep if isinstance(done, Delivered) else self.tell)(done)

    def _carry_out(self, item: Deliver | Fold) -> Event:
        """Do what an operation needs; returns what to say of it."""
        if isinstance(item, Fold):
            results, parts = fold(item, self._library, functools.partial(self._home, item.dtype))
            return Folded(rank=self.rank, op=item.op, results=results, parts=parts)
        if item.synthesised:
            self._pending[item.handle].synthesise(item.source)
        else:
            self._pending[item.handle].deliver(item.result, item.blocks, item.source)
        del self._pending[item.handle]
        return self._done(item.handle)

    def _done(self, handle: int) -> Event:
        return Delivered(rank=self.rank, handle=handle)

    def _broke_off(self, error: BaseException) -> None:
        """The completer has failed, which is our trouble and not the program's."""
        reason = str(error) if isinstance(error, Exhausted) else f"{type(error).__name__}: {error}"
        self.tell(Broke(rank=self.rank, reason=reason))
        traceback.print_exception(error)  # last: the disk of the log may be full
