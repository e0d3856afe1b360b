"""What the kernel tells of a process: one that computes is starved at worst, one that is stopped is not."""

from __future__ import annotations

import os
import signal

from prism.gpu import processes


def test_who_computes_can_only_be_starved_and_who_is_stopped_is_not() -> None:
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    try:
        assert os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1])
        assert processes.is_stopped(child)
        assert not processes.is_starved(child)
        assert processes.is_starved(os.getpid())
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert not processes.is_starved(child)
