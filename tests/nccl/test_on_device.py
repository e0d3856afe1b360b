"""The device engine on a GPU, without torch: every bit against rings of N real ranks, graphs, messages, time."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks.gpu_engine import build, compiler

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="there is no GPU here"),
    pytest.mark.skipif(compiler() is None, reason="there is no nvcc here"),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("on_device"))


@pytest.mark.parametrize("turn", [*(("check", mode) for mode in "0123"), ("pair",), ("scenes",)], ids=" ".join)
def test_on_a_gpu(program: Path, turn: tuple[str, ...]) -> None:
    done = subprocess.run([program, *turn], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
