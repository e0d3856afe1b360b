"""A sandbox rank's line: it asks nobody for results or permission, and the coordinator is told what it does.

Its operations are done by the pruned engine in its own process, in wall time; what it tells is compared with the graph.
"""

from __future__ import annotations

import socket
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from prism.core.calls import Call, Ref
from prism.core.events import Broke, Completed, Event, Marked, Noticed, Posted
from prism.core.record import PostStep
from prism.core.stage.warnings import ATTACH
from prism.gpu.emulation.attach import offer_debugger
from prism.gpu.emulation.buffers import Buffer, staged
from prism.gpu.emulation.clock import set_ahead
from prism.gpu.emulation.participant import START_POLL_S, Participant
from prism.gpu.group.tensors import load, load_blocks
from prism.gpu.processes.birth import Birth
from prism.gpu.processes.output import note
from prism.gpu.pruned import GRACE_S, Aborted, Mismatch, PeerLost
from prism.gpu.rank.callsite import callsite
from prism.gpu.rank.link import Link
from prism.gpu.rank.pending import Pending
from prism.net.board import Board
from prism.net.frames import pack
from prism.net.schedule import BOARD, FIFOS, SCHEDULE, Schedule


@dataclass(frozen=True, slots=True)
class _Came:
    """A result, for the completer: in a buffer, in the record, or in its tensors already."""

    handle: int
    result: Buffer | Ref | None
    blocks: tuple[int, ...]
    source: int
    synthesised: bool = False


def sandbox_link(birth: Birth, line: socket.socket) -> SandboxLink:
    """The link of a sandbox rank, and its part in the emulation."""
    setup = birth.setup
    link = SandboxLink(birth.rank, line, Path(setup.scratch), Path(setup.payloads), birth.stage, True, setup.kept)
    take_part(link, birth)
    return link


def take_part(link: SandboxLink, birth: Birth) -> Schedule:
    """Give a link its part in the emulation; returns the schedule of that."""
    emulation = birth.setup.emulation
    assert emulation is not None
    directory = Path(emulation.directory)
    set_ahead(emulation.clock)
    schedule = Schedule.load(directory / SCHEDULE)
    board = Board.of(directory / BOARD, schedule)
    link.participant = Participant(birth.rank, directory / FIFOS, schedule, board, emulation.recorded, link.fail)
    link.attach, link.recorded = emulation.attach, emulation.recorded
    return schedule


class SandboxLink(Link):
    """A Link whose operations the `participant` carries out."""

    participant: Participant
    attach = False  # whether a debugger is waited for
    recorded = False  # whether results come from the record

    def begin(self) -> None:
        """Start together with the other sandbox ranks, and with a debugger if one is wanted."""
        if self.attach:
            told, wait = offer_debugger(self.rank)
            self.tell(Noticed(rank=self.rank, kind=ATTACH, summary=told))
            wait()
        self.participant.begin()
        self.resume()

    def save(self, inputs: Sequence[torch.Tensor], lasting: bool) -> Any:
        """Nothing is kept here: the inputs themselves, for `post`."""
        return list(inputs)

    def load(self, result: Any, blocks: Sequence[int], into: Sequence[torch.Tensor], room: Sequence[int]) -> None:
        """Fill tensors with what the engine left in a buffer, or with what was recorded."""
        if isinstance(result, Ref):
            super().load(result, blocks, into, room)
            return
        whole = Ref("", 0, result.nbytes)
        if blocks:
            load_blocks(whole, result, blocks, into, room)
        else:
            load(whole, result, into)

    def post(self, group: str, call: Call, payload: Any, pending: Pending, compute: int, batch: int = 0) -> int:
        """Tell of an operation and let the engine begin it; returns its handle at once."""
        site = callsite()
        with self._sending:  # told in the order in which the engine hears of them
            self._handles += 1
            handle = self._handles
            self._pending[handle] = pending
            told = Posted(
                rank=self.rank, group=group, handle=handle, call=call, site=site, compute=compute, batch=batch,
                main=self.is_program(),
            )  # fmt: skip
            self.participant.post(
                told,
                staged(payload or [], pending.outputs),
                pending.outputs,
                lambda *came: self._take_in(handle, *came),
            )
            self._send(pack(told))
        self._completer.hand_over()
        return handle

    def _asks_before(self, pending: Sequence[Pending]) -> bool:
        """It waits in the engine, in wall time, and asks nobody."""
        return False

    def poll(self, handle: int) -> bool:
        """Whether an operation is done; the engine goes on beside it."""
        pending = self._pending.get(handle)
        return pending is None or pending.done()

    def mark(self) -> None:
        """An iteration ends here and now."""
        self.tell(Marked(rank=self.rank, compute=self.lap(), wall=time.monotonic_ns()))
        self.resume()

    def until_leave(self) -> None:
        """Return when the rank may exit: others may wait for what it takes part in, as long as they run."""
        super().until_leave()
        self.participant.end()
        while self._pending and not self.participant.all_ended():
            time.sleep(START_POLL_S)

    def fail(self, error: BaseException) -> None:
        """The engine cannot go on; why a peer has gone or does something else, others say better, in a moment.

        One whose program is over may go in order; who waits for it then is found out as a hang.
        """
        if isinstance(error, PeerLost):
            error = self.participant.cause(error)
        if isinstance(error, PeerLost) and self.participant.any_ended():
            return
        if isinstance(error, Aborted):
            note(str(error))  # now: once the run is decided this process is killed
        if isinstance(error, Aborted | Mismatch):
            time.sleep(GRACE_S)
        self.tell(Broke(rank=self.rank, reason=f"{type(error).__name__}: {error}"))
        traceback.print_exception(error)  # last: the disk of the log may be full

    def _take_in(self, handle: int, result: Buffer | None, step: PostStep) -> None:
        if self.recorded:
            self._completer.put(_Came(handle, step.result, step.blocks, step.source, synthesised=step.dropped > 0))
        else:
            self._completer.put(_Came(handle, result, step.blocks, step.source))

    def _done(self, handle: int) -> Event:
        return Completed(rank=self.rank, handle=handle)
