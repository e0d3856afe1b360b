"""An assistant: the process that plays virtual ranks around one sandbox rank.

It walks the touching operations by the wall clock (prism.gpu.emulation.walk). When a virtual rank posts follows from
the posts of the sandbox ranks, which are on the board, and from the summary of all that lies between (in
prism.core.emulation); so the walk costs what the sandbox does, not what the world does. Each operation is handed to the
engine as soon as its posts are known, mostly ahead of its time; payloads are read ahead too.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
import socket
import time
import traceback
from pathlib import Path
from typing import NoReturn

from prism.core.events import Broke
from prism.gpu.emulation.answering import Answering, Both, OnHost
from prism.gpu.emulation.clock import set_ahead
from prism.gpu.emulation.device.releasing import OnDevice
from prism.gpu.emulation.virtual import VirtualRanks
from prism.gpu.emulation.walk import Walk
from prism.gpu.processes.birth import Birth, Introduction
from prism.gpu.processes.output import redirect
from prism.gpu.pruned import GRACE_S, Aborted, Mismatch, PeerLost
from prism.gpu.rank.line import connect
from prism.net.board import Board
from prism.net.dealing import dealt
from prism.net.frames import pack
from prism.net.messages import Setup
from prism.net.passing import OVERFLOW
from prism.net.payloads import Library
from prism.net.schedule import BOARD, FIFOS, SCHEDULE, Schedule

POLL_S = 0.0001
"""How often the board is looked at: nothing can be waited on there."""
POLL_FOR_DEVICE_S = 0.00001
"""The same, for a device, which goes on to the next operation sooner than a program on a CPU does."""
PR_SET_TIMERSLACK = 29


def assist(birth: Birth) -> NoReturn:
    """Play virtual ranks around a sandbox rank until the worker ends this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    setup = birth.setup
    assert setup.emulation is not None
    set_ahead(setup.emulation.clock, setup.emulation.lead)
    redirect(Path(setup.logs) / f"assistant-{-1 - birth.rank}.log")
    line = connect(Path(birth.socket))
    introduction = pack(Introduction(rank=birth.rank, pid=os.getpid()))
    try:
        schedule, board, answering = _engage(setup, birth.rank, line)
    except Exception as error:
        line.sendall(introduction)
        _tell(line, birth.rank, error)
        raise
    line.sendall(introduction)
    walk = Walk(schedule, board, answering)
    while not board.origin:
        time.sleep(POLL_S)
    pause = _pause(setup)
    walk.begin()
    while walk.advance():
        time.sleep(pause)
    while line.recv(1 << 16):  # jobs go on in their threads
        pass
    os._exit(0)


def _pause(setup: Setup) -> float:
    """How long to sleep between two looks at the board, in s; for a device also makes sleeping exact."""
    if setup.device == "cpu":
        return POLL_S
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1)  # else the kernel sleeps 50 us longer
    return POLL_FOR_DEVICE_S


def _engage(setup: Setup, rank: int, line: socket.socket) -> tuple[Schedule, Board, Answering]:
    """What an assistant works with; raises OSError if there is no room for it."""
    assert setup.emulation is not None
    directory, number = Path(setup.emulation.directory), -1 - rank
    schedule = Schedule.load(directory / SCHEDULE)
    ranks = schedule.touching.sandbox
    board, answered = Board.of(directory / BOARD, schedule), ranks[number % len(ranks)]
    assistants = len(ranks) if setup.spread is None else len(setup.spread.assistants)
    played = {lane for (_, lane), by in dealt(schedule, assistants // len(ranks)).items() if by == rank}
    payloads = Path(setup.payloads)
    library = Library(payloads, payloads / OVERFLOW, Path(setup.scratch))  # of other hosts, too
    answering: Answering = OnHost.of(
        VirtualRanks(schedule, answered, directory / FIFOS, played), library, setup.emulation.pool // assistants,
        board.pool[number], functools.partial(_give_up, board, line, rank),
    )  # fmt: skip
    if setup.device == "cuda":
        answering = Both(answering, OnDevice.of(schedule, answered, directory, Path(setup.payloads), board))
    return schedule, board, answering


def _give_up(board: Board, line: socket.socket, rank: int, error: BaseException) -> None:
    """A job failed: without it the sandbox would wait for ever, so this process ends, and with it the run.

    Where it failed because a sandbox rank has gone or does something else, those who know say so better, in a moment;
    a rank whose program is over may go while there is still something for it. Who aborts has told why.
    """
    with contextlib.suppress(OSError):  # the disk of the log may be full
        traceback.print_exception(error)
    if isinstance(error, Aborted) or (isinstance(error, PeerLost) and board.ended.any()):
        return
    if isinstance(error, PeerLost | Mismatch):
        time.sleep(GRACE_S)
    else:
        _tell(line, rank, error)
    os._exit(1)


def _tell(line: socket.socket, rank: int, error: BaseException) -> None:
    """Say why there is no assistant; most likely there is no room for it."""
    reason = str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
    with contextlib.suppress(OSError):  # the worker has gone
        line.sendall(pack(Broke(rank=rank, reason=reason)))
