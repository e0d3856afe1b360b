"""A rank's end of the line on a fake GPU, and the test in the place of the coordinator."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from prism.core.events import AnyEvent, Posted, Staged
from prism.core.instructions import AnyInstruction, Probe
from prism.core.stage.kept import EVERYTHING, Kept
from prism.gpu.cuda.communicator import CudaCommunicator
from prism.gpu.cuda.link import CudaLink
from prism.gpu.group.work import Batch, Operation
from prism.net.frames import Unpacker, pack
from tests.gpu.fake_cuda import FakeDriver

OPEN: list[socket.socket] = []
"""Lines that ranks may still talk on."""


class Completion:
    """What torch's callers would hold; it remembers on which stream it was completed."""

    def __init__(self, operation: Operation | Batch, driver: FakeDriver) -> None:
        self.operation = operation
        self.stream = ""
        self._driver = driver
        self._done = threading.Event()

    def complete(self, outputs: list[torch.Tensor]) -> None:
        self.stream = self._driver.current().name
        self._done.set()

    def fail(self, reason: str) -> None:
        self._done.set()

    def done(self) -> bool:
        return self._done.is_set()

    def join(self) -> None:
        self._done.wait()

    def wait(self) -> None:
        self.operation.wait()


class Line:
    """The coordinator's end."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._line.settimeout(0.05)
        self._frames: Unpacker[AnyEvent] = Unpacker(AnyEvent)
        self._heard: list[AnyEvent] = []

    def hear(self, kind: type[AnyEvent]) -> Any:
        """The next event of a kind; others may be asked for later."""
        while True:
            for place, event in enumerate(self._heard):
                if isinstance(event, kind):
                    return self._heard.pop(place)
            self.say(Probe(rank=0))  # whereupon it says what it has kept
            with contextlib.suppress(TimeoutError):
                self._heard += self._frames.feed(self._line.recv(1 << 16))

    def said(self) -> list[Any]:
        """What the rank has said by itself since."""
        with contextlib.suppress(TimeoutError):
            self._heard += self._frames.feed(self._line.recv(1 << 16))
        return self._heard

    def end(self) -> None:
        """Say nothing more; what the rank still says is not refused."""
        self._line.shutdown(socket.SHUT_WR)
        OPEN.append(self._line)

    def say(self, *instructions: AnyInstruction) -> None:
        for instruction in instructions:
            self._line.sendall(pack(instruction))


class TestedLink(CudaLink):
    """A link whose process outlives its line."""

    def _read(self) -> None:
        self._serve()


class Stage:
    """Rank 0 of two, on a fake GPU."""

    def __init__(self, folder: Path, answered: bool, kept: Kept) -> None:
        for name in ("scratch", "record"):
            (folder / name).mkdir()
        ours, theirs = socket.socketpair()
        OPEN.append(theirs)
        self.driver = FakeDriver()
        self.line = Line(ours)
        self.record = folder / "record"
        arguments = (0, theirs, folder / "scratch", self.record, "s1", answered, kept)
        self.link = TestedLink(*arguments, driver=self.driver)
        self.group = CudaCommunicator(self.link, "default", (0, 1), 0, "nccl", self._wrap)

    def _wrap(self, operation: Operation | Batch) -> Completion:
        completion = Completion(operation, self.driver)
        operation.completion = completion
        return completion

    def staged(self) -> tuple[Posted, bytes]:
        """The next post, and its input once it is there."""
        posted = self.line.hear(Posted)
        assert self.line.hear(Staged).handle == posted.handle
        return posted, bytes(self.link._library.read(posted.payload))


@contextlib.contextmanager
def on_stage(folder: Path, answered: bool = False, kept: Kept = EVERYTHING) -> Iterator[Stage]:
    """A rank; nothing is said to it in the end."""
    stage = Stage(folder, answered, kept)
    try:
        yield stage
    finally:
        stage.line.end()
