"""What the host does not allow is told with what to do."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator

import pytest

from prism.gpu.processes.birth import Birth, FromZygote, Unborn
from prism.gpu.processes.limits import no_process
from prism.gpu.processes.zygote import Zygote
from prism.net.frames import Unpacker
from tests.gpu.test_dismissing import SETUP


@pytest.fixture
def line() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_a_fork_that_fails_is_told_and_the_fork_server_goes_on(
    line: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fork() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fork)
    ours, theirs = line
    zygote = Zygote.__new__(Zygote)  # without the signals of a process of its own
    zygote._line, zygote._ranks, zygote._collapsed = theirs, {}, True
    zygote._fork(Birth(rank=3, stage="s1", socket="", setup=SETUP))
    (told,) = Unpacker[FromZygote](FromZygote).feed(ours.recv(4096))
    assert isinstance(told, Unborn)
    assert told.rank == 3
    assert "`ulimit -u`" in told.reason


def test_memory_and_files_that_a_fork_lacks_have_other_fixes() -> None:
    told = no_process(OSError(errno.ENOMEM, "Cannot allocate memory"))
    assert told.startswith("Cannot allocate memory; ")
    assert "devices.host_memory" in told
    assert "`ulimit -n`" in no_process(OSError(errno.EMFILE, "Too many open files"))
