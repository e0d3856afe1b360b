"""An assistant: the process that plays the virtual ranks around one sandbox rank.

It walks the touching operations by the wall clock. When a virtual rank posts follows from the posts of the sandbox
ranks, which are on the board, and from the summary of all that lies between (in prism.core.emulation); so the walk
costs what the sandbox does, not what the world does. Each operation is handed to the engine as soon as its posts are
known, mostly ahead of its time; payloads are read ahead too.
"""

from __future__ import annotations

import os
import signal
import time
import traceback
from pathlib import Path
from typing import NoReturn

from prism.core.emulation.summary import Clock
from prism.gpu.birth import Birth, Introduction
from prism.gpu.executor import Executors
from prism.gpu.link import connect
from prism.gpu.output import redirect
from prism.gpu.prefetch import Pool
from prism.gpu.pruned import Aborted, Mismatch, PeerLost
from prism.gpu.virtual import Need, VirtualRanks
from prism.net.board import Board
from prism.net.frames import pack
from prism.net.payloads import Library
from prism.net.schedule import BOARD, FIFOS, SCHEDULE, Schedule

GRACE_S = 2.0
POLL_S = 0.0001
"""How often the board is looked at: nothing can be waited on there."""


WINDOW = 256
"""Open operations that are looked at in one turn; more than any rank has under way."""


class Walk:
    """How far the emulation has come, as seen by one assistant."""

    def __init__(self, schedule: Schedule, board: Board, virtual: VirtualRanks, pool: Pool[Need]) -> None:
        self._clock = Clock(schedule.touching, schedule.summary, schedule.costs)
        self._touching = schedule.touching
        self._board = board
        self._virtual = virtual
        self._pool = pool
        self._executors = Executors(_give_up)
        self._answers = set(virtual.ops)
        self._places = {rank: place for place, rank in enumerate(schedule.touching.sandbox)}
        self._open = list(range(len(schedule.touching.op)))  # not finished
        self._begun: set[int] = set()

    def advance(self) -> bool:
        """Begin and finish what can be; returns whether something is left."""
        waiting: set[int] = set()
        left = []
        for op in self._open[:WINDOW]:
            previous = int(self._touching.prev[op])
            if previous in waiting or not self._clock.ready(op) or not self._go_on(op):
                waiting.add(op)
                left.append(op)
        self._open[:WINDOW] = left
        return bool(self._open)

    def _go_on(self, op: int) -> bool:
        """Begin an operation, once, and end it if all sandbox members have posted; returns whether it has ended."""
        if op not in self._begun:
            self._begun.add(op)
            if op in self._answers:
                posts = self._clock.posts(op) + self._board.origin
                self._executors.submit(*self._virtual.job(op, posts, self._pool))
        rows = slice(self._touching.member_ptr[op], self._touching.member_ptr[op + 1])
        places = [self._places[rank] for rank in self._touching.rank[rows].tolist()]
        posted = self._board.posted[places, op]
        if not posted.all():
            return False
        self._clock.finish(op, (posted - self._board.origin).tolist())
        self._begun.discard(op)
        return True


def assist(birth: Birth) -> NoReturn:
    """Play the virtual ranks around a sandbox rank until the worker ends this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    setup, number = birth.setup, -1 - birth.rank
    assert setup.emulation is not None
    directory = Path(setup.emulation.directory)
    redirect(Path(setup.logs) / f"assistant-{number}.log")
    schedule = Schedule.load(directory / SCHEDULE)
    ranks = schedule.touching.sandbox
    board = Board(directory / BOARD, len(ranks), len(schedule.touching.op))
    virtual = VirtualRanks(schedule, ranks[number], directory / FIFOS)
    library = Library(Path(setup.payloads))
    pool = Pool(virtual.needs(), setup.emulation.pool // len(ranks), library, board.pool[number])
    walk = Walk(schedule, board, virtual, pool)
    line = connect(Path(birth.socket))
    line.sendall(pack(Introduction(rank=birth.rank, pid=os.getpid())))
    while not board.origin:
        time.sleep(POLL_S)
    while walk.advance():
        time.sleep(POLL_S)
    while line.recv(1 << 16):  # jobs go on in their threads
        pass
    os._exit(0)


def _give_up(error: BaseException) -> None:
    """A job failed: without it the sandbox would wait for ever, so this process ends, and with it the run.

    Where it failed because the sandbox rank has gone, the run is told so by others, with better reasons.
    """
    traceback.print_exception(error)
    if isinstance(error, Aborted | PeerLost):
        return
    if isinstance(error, Mismatch):  # a sandbox rank does something else: who compares says it better, in a moment
        time.sleep(GRACE_S)
    os._exit(1)
