"""What a rank's main thread does while it waits for its turn, and what is said together with what."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import socket
import threading
from collections.abc import Iterator

import pytest

from prism.core.calls import Ref
from prism.core.events import AnyEvent, Delivered, Marked, Polled
from prism.core.instructions import AnyInstruction, Deliver, Leave, Probe, Release, Run
from prism.gpu.rank.line import Line
from prism.net.frames import Unpacker, pack


class RankLine(Line):
    """A line that outlives its worker; it delivers what has an even handle itself, as the main thread."""

    def __init__(self, line: socket.socket) -> None:
        super().__init__(0, line)
        self.did: list[tuple[int, str]] = []
        self.others: queue.SimpleQueue[AnyInstruction] = queue.SimpleQueue()
        self._listen()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            self._serve()

    def _may_do(self, instruction: AnyInstruction) -> bool:
        return isinstance(instruction, Deliver) and instruction.handle % 2 == 0

    def _do(self, instruction: AnyInstruction) -> None:
        assert isinstance(instruction, Deliver)
        self.did.append((instruction.handle, threading.current_thread().name))
        self.keep(Delivered(rank=0, handle=instruction.handle))

    def _obey(self, instruction: AnyInstruction) -> None:
        self.others.put(instruction)


class Worker:
    """The other end; what comes in one piece is heard in one piece."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._frames: Unpacker[AnyEvent] = Unpacker(AnyEvent)

    def hear(self) -> list[AnyEvent]:
        return list(self._frames.feed(self._line.recv(1 << 16)))

    def say(self, *instructions: AnyInstruction) -> None:
        self._line.sendall(b"".join(map(pack, instructions)))


@pytest.fixture
def ends() -> Iterator[tuple[RankLine, Worker]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield RankLine(theirs), Worker(ours)
        ours.shutdown(socket.SHUT_WR)


POLLED = Polled(rank=0, handle=2)
MARKED = Marked(rank=0)


def test_who_is_not_held_has_results_delivered_by_another_thread(ends: tuple[RankLine, Worker]) -> None:
    line, worker = ends
    worker.say(Deliver(rank=0, handle=2))
    assert line.others.get(timeout=10) == Deliver(rank=0, handle=2)


def test_a_held_rank_delivers_and_says_so_with_what_it_says_next(ends: tuple[RankLine, Worker]) -> None:
    line, worker = ends
    answer = threading.Thread(target=lambda: (worker.hear(), worker.say(Deliver(rank=0, handle=4), Run(rank=0))))
    answer.start()
    assert line.hold(POLLED) == Run(rank=0)
    answer.join()
    assert line.did == [(4, "MainThread")]
    line.tell(MARKED)
    assert worker.hear() == [Delivered(rank=0, handle=4), MARKED]


def test_what_is_done_before_the_permission_is_said_at_once(ends: tuple[RankLine, Worker]) -> None:
    line, worker = ends
    heard: list[list[AnyEvent]] = []

    def in_two_pieces() -> None:
        heard.append(worker.hear())
        worker.say(Deliver(rank=0, handle=4))
        heard.append(worker.hear())
        worker.say(Run(rank=0))

    thread = threading.Thread(target=in_two_pieces)
    thread.start()
    line.hold(POLLED)
    thread.join()
    assert heard == [[POLLED], [Delivered(rank=0, handle=4)]]


def test_what_may_run_callbacks_and_what_is_no_work_is_another_threads(ends: tuple[RankLine, Worker]) -> None:
    line, worker = ends
    told = [Deliver(rank=0, handle=3), Release(rank=0, payload=Ref("file", 0, 1))]
    thread = threading.Thread(target=lambda: (worker.hear(), worker.say(*told, Run(rank=0))))
    thread.start()
    line.hold(POLLED)
    thread.join()
    assert [line.others.get(timeout=10) for _ in told] == told
    assert line.did == []


def test_who_is_looked_at_says_what_it_kept(ends: tuple[RankLine, Worker]) -> None:
    line, worker = ends
    line.keep(MARKED)
    worker.say(Probe(rank=0))
    assert worker.hear() == [MARKED]


def test_who_is_about_to_leave_keeps_nothing(ends: tuple[RankLine, Worker]) -> None:
    line, worker = ends
    line.keep(MARKED)
    thread = threading.Thread(target=line.until_leave)
    thread.start()
    assert worker.hear() == [MARKED]
    line.keep(MARKED)
    assert worker.hear() == [MARKED]
    worker.say(Leave(rank=0))
    thread.join()


class Disturbed(queue.SimpleQueue[None]):
    """Rings as the line's own, but a signal handler of the program raises in the first who waits for it."""

    def __init__(self) -> None:
        self.disturbed = threading.Event()

    def get(self, block: bool = True, timeout: float | None = None) -> None:
        if not self.disturbed.is_set():
            self.disturbed.set()
            raise TimeoutError("of the program")
        super().get(block, timeout)


def test_what_a_signal_handler_raises_is_raised_when_the_rank_goes_on(ends: tuple[RankLine, Worker]) -> None:
    line, worker = ends
    line._bell = bell = Disturbed()

    def answer_the_disturbed() -> None:
        worker.hear()
        bell.disturbed.wait()
        worker.say(Deliver(rank=0, handle=4), Run(rank=0))

    answer = threading.Thread(target=answer_the_disturbed)
    answer.start()
    with pytest.raises(TimeoutError, match="of the program"):
        line.hold(POLLED)
    answer.join()
    assert line.did == [(4, "MainThread")]


def test_a_child_is_refused_also_where_it_was_forked_while_something_was_said(ends: tuple[RankLine, Worker]) -> None:
    line, _ = ends
    with line._sending:
        child = os.fork()
        if child == 0:
            signal.alarm(10)  # else it would wait for ever where it is not refused
            with contextlib.suppress(RuntimeError):
                line.tell(MARKED)
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
