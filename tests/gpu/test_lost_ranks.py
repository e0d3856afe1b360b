"""A sandbox rank or an assistant is lost: the worker calls off what the others wait for, and they tell who it was."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("prism.gpu.pruned", exc_type=ImportError)
from prism.core.events import Finished
from prism.core.instructions import Kill
from prism.gpu import pruned
from prism.gpu.processes.birth import Gone
from prism.gpu.pruned import Aborted, PeerLost, abort, cause
from prism.gpu.worker import Worker
from prism.net.messages import Emulating
from prism.net.schedule import FIFOS
from tests.gpu.test_dismissing import SETUP, Births, Coordinator, at_work

MEMBER = Path(__file__).with_name("waiting_member.py")
LOST = PeerLost("the process at the other end has ended")


@pytest.fixture
def fifos(tmp_path: Path) -> Path:
    (tmp_path / FIFOS).mkdir()
    return tmp_path / FIFOS


def emulating(tmp_path: Path, births: Births | None = None) -> Worker:
    """A worker in the middle of an emulation of two sandbox ranks."""
    worker = at_work(tmp_path, Coordinator(), births or Births())
    emulation = Emulating(directory=str(tmp_path), sandbox=(0, 1), pool=0)
    worker._setup = msgspec.structs.replace(SETUP, emulation=emulation)
    return worker


def reason(fifos: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Why all was called off; "" if it was not."""
    monkeypatch.setattr(pruned, "GRACE_S", 0)
    found = cause(fifos, LOST)
    return str(found) if isinstance(found, Aborted) else ""


def member(fifos: Path, rank: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(MEMBER), str(fifos), str(rank)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def leave(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


@pytest.mark.parametrize(
    ("end", "how"),
    [(subprocess.Popen.kill, "was killed by SIGKILL"), (leave, "ended with exit code 0")],
    ids=["killed", "leaves"],
)
async def test_who_waits_in_a_collective_is_told_who_was_lost(
    end: Callable[[Any], None], how: str, tmp_path: Path, fifos: Path
) -> None:
    births = Births()
    worker = emulating(tmp_path, births)
    waits, lost = member(fifos, 0), member(fifos, 1)
    await asyncio.to_thread(have_sent, fifos / "group.g.m0-m1", fifos / "group.g.m1-a1")
    end(lost)
    births.queue.put_nowait(Gone(1, await asyncio.to_thread(lost.wait)))
    said, _ = await asyncio.to_thread(waits.communicate)
    assert said == f"rank 1 {how}; its log may say why\n"
    lost.communicate()
    worker._processes._hearing.cancel()  # type: ignore[union-attr]


def have_sent(*names: Path) -> None:
    """Return once the senders into these FIFOs have published something."""
    while not all(name.exists() and name.read_bytes()[:4].strip(b"\0") for name in names):
        time.sleep(0.001)


def test_who_ends_in_order_is_not_lost(tmp_path: Path, fifos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def live() -> None:
        worker = emulating(tmp_path)
        worker.report(Finished(rank=0, code=0, peak_bytes=0))
        worker.gone(0, 0)
        assert reason(fifos, monkeypatch) == ""
        worker.gone(1, 0)
        worker._processes._hearing.cancel()  # type: ignore[union-attr]

    asyncio.run(live())
    assert reason(fifos, monkeypatch).startswith("rank 1 ended with exit code 0;")


async def test_of_several_that_are_lost_the_first_is_told(
    tmp_path: Path, fifos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = emulating(tmp_path)
    worker.gone(-2, -6)
    worker.gone(0, 1)
    assert reason(fifos, monkeypatch) == "assistant 1 was killed by SIGABRT; its log may say why"
    worker._processes._hearing.cancel()  # type: ignore[union-attr]


async def test_a_run_that_is_decided_is_called_off(
    tmp_path: Path, fifos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = emulating(tmp_path)
    worker._obey(Kill(rank=0))
    assert reason(fifos, monkeypatch) == "the run has ended; its summary says why"
    worker._processes._hearing.cancel()  # type: ignore[union-attr]


async def test_a_directory_that_has_gone_is_no_trouble(tmp_path: Path) -> None:
    worker = emulating(tmp_path)  # without FIFOs
    worker.gone(1, 1)
    worker._processes._hearing.cancel()  # type: ignore[union-attr]


def test_who_loses_a_peer_waits_for_the_reason(fifos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: abort(fifos, "rank 1 was killed by SIGKILL"))
    assert str(cause(fifos, LOST)) == "rank 1 was killed by SIGKILL"
