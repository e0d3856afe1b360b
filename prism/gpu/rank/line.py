"""A rank's line to its worker: what it says goes out from any thread, what it is told comes in on one of its own.

The *reader* takes in frames and never touches a tensor. While the main thread is *held*, because it has said something
and goes on only when told to, it does itself what the rank is told: a result that comes together with the permission to
go on wakes one thread up, once. What nobody waits for is *kept*, and said with what is said next.
"""

from __future__ import annotations

import collections
import contextlib
import os
import queue
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from prism.core.events import Broke, Event
from prism.core.instructions import Answer, AnyInstruction, Leave, Probe, Run
from prism.net.frames import Unpacker, pack

MOST_KEPT = 1 << 16
"""Bytes; more is said at once."""


class Sending:
    """The right to say something: of one thread at a time, and of none in a process that the program has forked.

    There it may look taken for ever: by a thread that the child does not have.
    """

    def __init__(self, refuse_forked: Callable[[], None]) -> None:
        self._refuse_forked = refuse_forked
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._refuse_forked()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class Line:
    """The connection of one rank; when it ends, so does the process."""

    def __init__(self, rank: int, line: socket.socket) -> None:
        self.rank = rank
        self._line = line
        self._process = os.getpid()
        self._sending = Sending(self.refuse_forked)
        self._calls = 0
        self._kept = bytearray()  # frames that go with the next one
        self._held = False  # whether the main thread waits for its turn
        self._turns: collections.deque[list[AnyInstruction]] = collections.deque()  # what it is told then
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()  # rung when it is
        self._answers: dict[int, queue.SimpleQueue[Answer]] = {}  # to other threads, by the number of the store call
        self._leave = threading.Event()

    @property
    def address(self) -> str:
        """Where the worker listens."""
        return str(self._line.getpeername())

    @property
    def forked(self) -> bool:
        """Whether this is a process that the program has forked, and not the rank."""
        return os.getpid() != self._process

    def refuse_forked(self) -> None:
        """Raise RuntimeError in such a process: what it does is nothing that the rank does."""
        if self.forked:
            raise RuntimeError(f"a process that rank {self.rank} has forked cannot communicate in the rank's place")

    def tell(self, event: Event) -> None:
        """Say anything."""
        data = pack(event)
        with self._sending:
            self._send(data)

    def until_leave(self) -> None:
        """Return when the rank may exit; the main thread says nothing more."""
        self._held = True
        self._speak()
        self._leave.wait()

    def hold(self, event: Event) -> Answer | Run:
        """Say something on the main thread, and do what the rank is told until that is to go on; returns that.

        What a signal handler of the program raises meanwhile is raised then: torch, which waits in C++, calls it then.
        """
        with self._sending:
            self._held = True
            self._send(pack(event))
        raised: BaseException | None = None
        while True:
            while not self._turns:
                try:
                    self._bell.get()
                except BaseException as error:
                    raised = error
            *work, last = self._turns.popleft()
            for instruction in work:
                self._do(instruction)
            if not isinstance(last, Run | Answer):
                self._do(last)
            elif raised is not None:
                raise raised
            else:
                return last

    def keep(self, event: Event) -> None:
        """Say something for which nobody waits together with what is said next; at once while that may take long."""
        data = pack(event)
        with self._sending:
            if self._held:
                self._send(data)
            else:
                self._keep(data)

    def _keep(self, data: bytes) -> None:
        """Say it with what is said next, unless much was kept by then; who calls holds `_sending`."""
        if len(self._kept) < MOST_KEPT:
            self._kept += data
        else:
            self._send(data)

    def _send(self, data: bytes) -> None:
        """Say it, behind what was kept; who calls holds `_sending`."""
        if self._kept:
            data = bytes(self._kept) + data
            self._kept.clear()
        self._line.sendall(data)

    def _speak(self) -> None:
        """Say what was kept."""
        with self._sending:
            self._send(b"")

    def _next_call(self) -> int:
        """The number of the next call of the store."""
        with self._sending:
            self._calls += 1
            return self._calls

    def _await_answer(self, number: int, event: Event) -> Answer:
        """Say that a thread other than the main one has called the store; returns when it is answered."""
        arrival = self._answers[number] = queue.SimpleQueue()
        self.tell(event)
        return arrival.get()

    def _obey(self, instruction: AnyInstruction) -> None:
        """Do what else the rank is told, on the reader's thread."""
        raise NotImplementedError

    def _may_do(self, instruction: AnyInstruction) -> bool:
        """Whether it is something that the main thread can do while it is held."""
        raise NotImplementedError

    def _do(self, instruction: AnyInstruction) -> None:
        """Do it there."""
        raise NotImplementedError

    def _listen(self) -> None:
        threading.Thread(target=self._read, name="prism-reader", daemon=True).start()

    def _read(self) -> None:
        try:
            self._serve()
        except OSError:
            pass  # the worker has gone
        except BaseException as error:
            with contextlib.suppress(OSError):
                self.tell(Broke(rank=self.rank, reason=f"what it was told is lost: {type(error).__name__}: {error}"))
        finally:
            os._exit(1)  # the run is over

    def _serve(self) -> None:
        frames: Unpacker[AnyInstruction] = Unpacker(AnyInstruction)
        while data := self._line.recv(1 << 16):
            turn: list[AnyInstruction] = []
            for instruction in frames.feed(data):
                match instruction:
                    case Answer(call=number) if number in self._answers:
                        self._answers.pop(number).put(instruction)
                    case Run() | Answer():
                        self._held = False
                        turn.append(instruction)
                    case Leave():
                        self._leave.set()
                    case Probe():
                        self._speak()
                    case _ if self._held and self._may_do(instruction):
                        turn.append(instruction)
                    case _:
                        self._obey(instruction)
            if turn:
                self._turns.append(turn)
                self._bell.put(None)


def connect(path: Path) -> socket.socket:
    """The rank's socket to its worker."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    line.connect(str(path))
    return line
