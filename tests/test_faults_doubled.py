"""Two misfortunes at once: what is stopped ends with a coordinator that is killed, and nothing of the run stays."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.held_run import HeldRun

PROGRAM = Path(__file__).with_name("programs") / "holds.py"
WORKER, FORK_SERVER = "prism.gpu.worker", "prism.gpu.processes.zygote"


def held_scenario(folder: Path, stage: str) -> str:
    """A scenario that stops at its hold point: while the fork server imports, or while ranks run."""
    pipe, ran = folder / "pipe", folder / "ran"
    (folder / "slow_import.py").write_text(f"import signal\nopen({str(pipe)!r}, 'w').write('here')\nsignal.pause()\n")
    ran.touch()  # so the program holds in its first stage
    content = {
        "prism": 1,
        "name": "held",
        "program": {
            "script": str(PROGRAM),
            "args": [str(pipe), str(ran)],
            "preload": ["slow_import"] if stage == "start-up" else [],
        },
        "world": {"size": 2},
        "devices": {"kind": "cpu", "slots": 2},
        "stages": ["capture"],
    }
    (folder / "held.yaml").write_text(json.dumps(content))
    return str(folder / "held.yaml")


def running(run: HeldRun, module: str) -> list[int]:
    """The processes of the run that were started with a module; ranks are forks of the fork server's."""
    return [pid for pid in run.processes() if module in Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")]


@pytest.mark.parametrize(
    ("stage", "stopped"),
    [
        ("start-up", (WORKER,)),
        ("capture", (WORKER,)),
        ("capture", (FORK_SERVER,)),
        ("capture", (WORKER, FORK_SERVER)),
    ],
    ids=lambda given: given if isinstance(given, str) else "+".join(given),
)
def test_what_is_stopped_ends_with_a_coordinator_that_is_killed(
    stage: str, stopped: tuple[str, ...], tmp_path: Path
) -> None:
    run = HeldRun(tmp_path, held_scenario(tmp_path, stage))
    try:
        scratch = run.come_to_hold()
        pids = [pid for module in stopped for pid in running(run, module)]
        assert len(pids) >= len(stopped)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        assert run.kill("") == -signal.SIGKILL
        run.last_process()
        assert not scratch.exists()
    finally:
        run.end()
