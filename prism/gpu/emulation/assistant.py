"""An assistant: the process that plays the virtual ranks around one sandbox rank.

It walks the touching operations by the wall clock (prism.gpu.emulation.walk). When a virtual rank posts follows from
the posts of the sandbox ranks, which are on the board, and from the summary of all that lies between (in
prism.core.emulation); so the walk costs what the sandbox does, not what the world does. Each operation is handed to the
engine as soon as its posts are known, mostly ahead of its time; payloads are read ahead too.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import time
import traceback
from pathlib import Path
from typing import NoReturn

from prism.gpu.birth import Birth, Introduction
from prism.gpu.emulation.prefetch import Pool
from prism.gpu.emulation.virtual import VirtualRanks
from prism.gpu.emulation.walk import Walk
from prism.gpu.line import connect
from prism.gpu.output import redirect
from prism.gpu.pruned import GRACE_S, Aborted, Mismatch, PeerLost
from prism.net.board import Board
from prism.net.frames import pack
from prism.net.payloads import Library
from prism.net.schedule import BOARD, FIFOS, SCHEDULE, Schedule

POLL_S = 0.0001
"""How often the board is looked at: nothing can be waited on there."""


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
    walk = Walk(schedule, board, virtual, pool, functools.partial(_give_up, board))
    line = connect(Path(birth.socket))
    line.sendall(pack(Introduction(rank=birth.rank, pid=os.getpid())))
    while not board.origin:
        time.sleep(POLL_S)
    walk.begin()
    while walk.advance():
        time.sleep(POLL_S)
    while line.recv(1 << 16):  # jobs go on in their threads
        pass
    os._exit(0)


def _give_up(board: Board, error: BaseException) -> None:
    """A job failed: without it the sandbox would wait for ever, so this process ends, and with it the run.

    Where it failed because a sandbox rank has gone or does something else, those who know say so better, in a moment;
    a rank whose program is over may go while there is still something for it.
    """
    with contextlib.suppress(OSError):  # the disk of the log may be full
        traceback.print_exception(error)
    if isinstance(error, Aborted | PeerLost) and board.ended.any():
        return
    if isinstance(error, Aborted | PeerLost | Mismatch):
        time.sleep(GRACE_S)
    os._exit(1)
