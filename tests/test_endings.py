"""How stages end: nothing of them is left, and what ran out or went away is told with where, how much and whom."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from prism import trace
from prism.coordinator import Coordinator
from prism.core.graph import Graph
from prism.crew import Crew
from prism.errors import RunError
from prism.exhaustion import Exhausted
from prism.net.launchers.local import LocalLauncher
from prism.result import Result
from prism.scenario import Calibrate, Emulate, Scenario
from tests.kills import below, printing
from tests.running import capture, emulate, on_the_bench, scenario

PROGRAMS = Path(__file__).with_name("programs")
STAGES = ("capture", "calibrate", "replay", "emulate")


def emulated(**emulation: object) -> Scenario:
    return scenario(
        PROGRAMS / "averages.py",
        ("3",),
        4,
        stages=STAGES,
        calibrate=Calibrate(warmup=1),
        emulate=Emulate(**{"sandbox": (1, 2), **emulation}),  # type: ignore[arg-type]
    )


@contextmanager
def largest_file(nbytes: int) -> Iterator[None]:
    """Writing beyond this size of a file fails, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_assistants_end_with_their_stage(tmp_path: Path) -> None:
    emulate(emulated(), tmp_path / "out")
    mine = [printing(pid) for pid in below(os.getpid())]
    assert [name for name in mine if name.startswith("assistant-")] == []
    assert (tmp_path / "out" / "ranks" / "assistant-1.log").exists()


def test_a_sandbox_rank_that_is_gone_without_a_word_has_failed(tmp_path: Path) -> None:
    run = emulate(emulated(program=str(PROGRAMS / "leaves_at_once.py")), tmp_path / "out")
    diagnosis = run.result.diagnosis
    assert diagnosis is not None
    assert diagnosis.kind == "rank_failed"
    assert diagnosis.summary.startswith(
        "rank 2 ended with exit code 0 before it had done what was captured of it, last seen at leaves_at_once.py:20"
    )
    assert diagnosis.ranks[0].rank == 2
    assert diagnosis.ranks[0].callsite == "leaves_at_once.py:20"


def test_a_disk_that_is_full_when_the_graph_is_written_is_told(tmp_path: Path) -> None:
    given, out = scenario(PROGRAMS / "averages.py", ("3",), 4), tmp_path / "out"
    capture(given, out)
    whole = (out / "graph.prism").read_bytes()

    async def again(crew: Crew) -> None:
        async with Coordinator(given, out, resume=True, crew=crew) as run:
            graph = await run.capture()
            with largest_file(1000):
                run.folder.save_graph(graph, given)

    told = rf"{out}: File too large: {len(whole)} bytes are needed, \d+ bytes are free; raise how large .* `ulimit -f`"
    with pytest.raises(Exhausted, match=told):
        on_the_bench(again)
    assert (out / "graph.prism").read_bytes() == whole
    assert isinstance(trace.read(out / "graph.prism").graph, Graph)
    assert sorted(path.name for path in out.iterdir() if path.suffix == ".part") == []
    assert Result.load(out / "result.json").stages["capture"].status == "reused"


def command(tmp_path: Path, script: str, limit: int, amount: int, *arguments: str) -> tuple[int, str]:
    """Run the command under a limit of the kernel; returns the exit code and what it said."""
    content = {
        "prism": 1,
        "name": "limited",
        "program": {"script": str(PROGRAMS / script), "args": list(arguments)},
        "world": {"size": 2},
        "devices": {"kind": "cpu", "slots": 2},
        "stages": ["capture"],
    }
    (tmp_path / "limited.yaml").write_text(json.dumps(content))
    done = subprocess.run(
        [sys.executable, "-m", "prism.coordinator", tmp_path / "limited.yaml", "--out", tmp_path / "out", "-q"],
        preexec_fn=lambda: resource.setrlimit(limit, (amount, amount)),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


def test_no_room_for_payloads_is_the_runs_trouble_and_not_the_programs(tmp_path: Path) -> None:
    """Shared memory that is full looks the same: the inputs of operations lie there."""
    code, told = command(tmp_path, "reduces_much.py", resource.RLIMIT_FSIZE, 1 << 16)
    assert code == 4, told
    assert "File too large: 400000 bytes are needed" in told
    assert "`ulimit -f`" in told
    assert "/dev/shm/prism-" in told


@pytest.mark.parametrize(("limit", "who"), [(16, "a run without ranks needs 64"), (64, "2 ranks need 66")])
def test_too_few_open_files_are_told_before_any_rank_starts(tmp_path: Path, limit: int, who: str) -> None:
    """With 16 the libraries that a coordinator stands on would end it themselves, without a reason."""
    code, told = command(tmp_path, "averages.py", resource.RLIMIT_NOFILE, limit, "3")
    assert code == 4, told
    assert f"{limit} files may be open, {who}; raise it with `ulimit -Hn`" in told
    assert len(told.splitlines()) == 1


OWN_MOUNTS = ["unshare", "-m", "sh", "-c"]
MAY_MOUNT = subprocess.run([*OWN_MOUNTS, "mount -t tmpfs tmpfs /mnt"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not MAY_MOUNT, reason="may not mount a file system of its own")
@pytest.mark.parametrize(
    ("full", "size", "told"),
    [
        ("/dev/shm", "64k", r"/dev/shm/prism-\S+/emulation: No space left on device: .*; make room there"),
        ("out", "16k", r"No space left on device: \d+ bytes are needed, 0 bytes are free; make room there, or name"),
    ],
)
def test_a_full_file_system_is_told_with_what_would_do(tmp_path: Path, full: str, size: str, told: str) -> None:
    content = {
        "prism": 1,
        "name": "full",
        "program": {"script": str(PROGRAMS / "averages.py"), "args": ["3"]},
        "world": {"size": 2},
        "devices": {"kind": "cpu", "slots": 2},
        "calibrate": {"warmup": 1},
        "emulate": {"sandbox": [1]},
        "stages": STAGES,
    }
    (tmp_path / "full.yaml").write_text(json.dumps(content))
    (tmp_path / "out").mkdir()
    run = f"{sys.executable} -m prism.coordinator {tmp_path}/full.yaml --out {tmp_path}/out/run -q"
    mounted = f"mount -t tmpfs -o size={size} tmpfs {tmp_path / full} && {run}"
    done = subprocess.run([*OWN_MOUNTS, mounted], capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stderr
    assert re.search(told, done.stderr), done.stderr


async def test_a_worker_that_may_not_be_started_is_told_with_what_would_do(monkeypatch: pytest.MonkeyPatch) -> None:
    async def start(*_: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(LocalLauncher, "start", start)
    crew = Crew()
    with pytest.raises(RunError, match=r"no worker can be started: Resource temporarily unavailable; .* \(`ulimit -u`"):
        await crew.__aenter__()
    assert not crew.scratch.exists()


def test_a_killed_rank_is_told_with_where_it_was_seen(tmp_path: Path) -> None:
    run = capture(scenario(PROGRAMS / "leaves.py", ("kill",), 3), tmp_path / "out")
    assert run.result.diagnosis is not None
    assert f"was killed by {signal.SIGKILL.name}, last seen at leaves.py:11" in run.result.diagnosis.summary
