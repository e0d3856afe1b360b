"""Whether NVIDIA's multi-process service runs: by the number of its process, which it leaves in its directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from prism.gpu.cuda import mps


@pytest.fixture
def ended() -> int:
    """The number of a process that is over."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_service_that_runs_is_found_where_the_environment_says(tmp_path: Path) -> None:
    (tmp_path / mps.NUMBER).write_text(f"{os.getpid()}\n")
    assert mps.serves({"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)})


def test_one_that_has_ended_has_left_its_number(tmp_path: Path, ended: int) -> None:
    (tmp_path / mps.NUMBER).write_text(f"{ended}\n")
    assert not mps.serves({"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)})


@pytest.mark.parametrize("text", [None, "", "of another kind"])
def test_what_is_no_number_is_no_service(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / mps.NUMBER).write_text(text)
    assert not mps.serves({"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)})
