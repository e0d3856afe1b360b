"""Launchers: what they have made or started is taken away by them, and nothing else."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from prism.net.keys import make_keys
from prism.net.launchers import Meeting
from prism.net.launchers.external import ExternalLauncher
from prism.net.launchers.local import LocalLauncher, LocalWorker
from prism.net.scratch import SHARED_MEMORY, make_scratch, remove_orphaned, remove_scratch


async def test_a_token_goes_with_its_run_and_not_with_one_that_did_not_begin(tmp_path: Path) -> None:
    meeting = Meeting("tcp://127.0.0.1:1", make_keys()[1], tmp_path)
    launchers = [ExternalLauncher(1, "tcp://127.0.0.1:1", tmp_path / "token", 1.0) for _ in range(2)]
    await launchers[0].start(meeting)
    await launchers[1].end()
    assert (tmp_path / "token").exists(), "its address may have been taken by the first"
    await launchers[0].end()
    assert not (tmp_path / "token").exists()


async def test_where_one_worker_cannot_be_started_the_others_are_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher, started = LocalLauncher(2), list[LocalWorker]()

    async def start(name: str, keys: str, meeting: Meeting) -> LocalWorker:
        if started:
            raise BlockingIOError
        sleeping = await asyncio.create_subprocess_exec(sys.executable, "-c", "import time; time.sleep(600)")
        started.append(LocalWorker(name, sleeping))
        return started[0]

    monkeypatch.setattr(launcher, "_start", start)
    with pytest.raises(BlockingIOError):
        await launcher.start(Meeting("tcp://127.0.0.1:1", make_keys()[1], tmp_path))
    assert await started[0].ended() == "-9"


def test_what_a_parent_that_is_there_has_made_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = make_scratch()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "getppid", os.getpid)
            remove_orphaned(scratch)
        assert scratch.exists()
        remove_orphaned(scratch)
        assert not scratch.exists()
    finally:
        remove_scratch(scratch)


def test_a_parent_that_has_been_killed_takes_nothing_away_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays the parent until the last of its threads has gone, and here until it is waited for."""
    maker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    scratch = SHARED_MEMORY / f"prism-{maker.pid}-killed"
    scratch.mkdir()
    try:
        monkeypatch.setattr(os, "getppid", lambda: maker.pid)
        remove_orphaned(scratch)
        assert scratch.exists()
        maker.kill()
        remove_orphaned(scratch)
        assert not scratch.exists()
    finally:
        maker.kill()
        maker.wait()
        remove_scratch(scratch)
