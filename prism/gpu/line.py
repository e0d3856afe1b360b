"""A rank's line to its worker: what it says goes out from any thread, what it is told comes in on one of its own.

The *reader* takes in frames and never touches a tensor.
"""

from __future__ import annotations

import os
import queue
import socket
import threading
from pathlib import Path

from prism.core.events import Event
from prism.core.instructions import Answer, AnyInstruction, Leave, Run
from prism.net.frames import Unpacker, pack


class Line:
    """The connection of one rank; when it ends, so does the process."""

    def __init__(self, rank: int, line: socket.socket) -> None:
        self.rank = rank
        self._line = line
        self._sending = threading.Lock()
        self._calls = 0
        self._go: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._answers: dict[int, queue.SimpleQueue[Answer]] = {}  # by the number of the store call
        self._leave = threading.Event()

    @property
    def address(self) -> str:
        """Where the worker listens."""
        return str(self._line.getpeername())

    def tell(self, event: Event) -> None:
        """Say anything."""
        data = pack(event)
        with self._sending:
            self._line.sendall(data)

    def until_leave(self) -> None:
        """Return when the rank may exit."""
        self._leave.wait()

    def _expect_answer(self) -> tuple[int, queue.SimpleQueue[Answer]]:
        """The number of the next call of the store, and where its answer will arrive."""
        arrival: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        with self._sending:
            self._calls += 1
            self._answers[self._calls] = arrival
            return self._calls, arrival

    def _obey(self, instruction: AnyInstruction) -> None:
        """Do what else the rank is told, on the reader's thread."""
        raise NotImplementedError

    def _listen(self) -> None:
        threading.Thread(target=self._read, name="prism-reader", daemon=True).start()

    def _read(self) -> None:
        try:
            self._serve()
        finally:
            os._exit(1)  # the worker is gone, and with it the run

    def _serve(self) -> None:
        frames: Unpacker[AnyInstruction] = Unpacker(AnyInstruction)
        while data := self._line.recv(1 << 16):
            for instruction in frames.feed(data):
                match instruction:
                    case Run():
                        self._go.put(None)
                    case Answer(call=number):
                        self._answers.pop(number).put(instruction)
                    case Leave():
                        self._leave.set()
                    case _:
                        self._obey(instruction)


def connect(path: Path) -> socket.socket:
    """The rank's socket to its worker."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    line.connect(str(path))
    return line
