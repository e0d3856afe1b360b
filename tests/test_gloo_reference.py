"""The cheap gloo reference gives what torchrun gives, and leaves no process behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gloo_reference import run_gloo

JOBS = Path(__file__).with_name("jobs")


def reference_lines(text: str) -> list[dict[str, Any]]:
    """The reports of the jobs, lowest rank first."""
    reports = [json.loads(line.removeprefix("REF ")) for line in text.splitlines() if line.startswith("REF ")]
    return sorted(reports, key=lambda report: report["rank"])


def program(directory: Path, body: str) -> Path:
    """A script of two ranks: what `body` says, after the process group is there."""
    script = directory / "program.py"
    script.write_text(f"""
import os, signal, sys
from pathlib import Path
import torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
{body}
""")
    return script


def test_each_rank_reports_once() -> None:
    outputs = run_gloo(JOBS / "job_ddp.py", ["2"], world=2)
    reports = [[(report["rank"], len(report["loss"])) for report in reference_lines(output)] for output in outputs]
    assert reports == [[(0, 2)], [(1, 2)]]


@pytest.mark.slow
def test_losses_equal_torchrun() -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    real = subprocess.run(
        [*command, JOBS / "job_ddp.py", "2"], env=environment, capture_output=True, text=True, check=True
    )
    cheap = reference_lines("".join(run_gloo(JOBS / "job_ddp.py", ["2"], world=2)))
    assert [report["loss"] for report in cheap] == [report["loss"] for report in reference_lines(real.stdout)]


def test_a_failing_rank_is_told_with_its_stderr_and_takes_the_others_along(tmp_path: Path) -> None:
    script = program(
        tmp_path,
        """
if rank == 0:
    Path(sys.argv[1]).write_text(str(os.getpid()))
dist.barrier()
if rank == 1:
    raise ValueError("a rank that gives up")
signal.pause()
""",
    )
    with pytest.raises(RuntimeError, match=r"(?s)rank 1 exited with 1.*ValueError: a rank that gives up"):
        run_gloo(script, [str(tmp_path / "pid")], world=2)
    assert not Path("/proc", (tmp_path / "pid").read_text()).exists()


def test_a_late_job_is_killed(tmp_path: Path) -> None:
    script = program(tmp_path, "signal.pause()")
    with pytest.raises(RuntimeError, match=r"timeout: ranks \[0, 1\] were not done after 0 s"):
        run_gloo(script, [], world=2, timeout=0)


def test_exit_codes_are_the_scripts_own(tmp_path: Path) -> None:
    script = program(tmp_path, "dist.barrier()\nsys.exit(7 if rank == 1 else 0)")
    with pytest.raises(RuntimeError, match="rank 1 exited with 7"):
        run_gloo(script, [], world=2)
