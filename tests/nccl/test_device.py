"""The device engine on a CPU: the kernels' source, a thread for each CTA, held to a ring of N real ranks; and all
of its host's side, over a CUDA whose streams and kernels are threads.

On a GPU the built library is held to the same (`on_device check`), by test_on_device.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.gpu_engine import HARNESS, PLANS
from tests.nccl.native import SANITIZERS, SOURCES, build, needs_compiler, run

FILES = [
    *(SOURCES / f"{name}.cpp" for name in PLANS),
    *(SOURCES / "tests" / f"{name}.cpp" for name in HARNESS),
    *sorted((SOURCES / "cuda").glob("*.cpp")),
    *sorted((SOURCES / "cuda" / "tests").rglob("*.cpp")),
]
CUDA = f"-I{SOURCES / 'cuda' / 'tests' / 'fake_cuda'}"

pytestmark = needs_compiler


def test_parties_on_threads(tmp_path: Path) -> None:
    run(build(FILES, tmp_path, CUDA))


@pytest.mark.slow
def test_parties_with_address_and_undefined_behaviour_sanitizers(tmp_path: Path) -> None:
    run(build(FILES, tmp_path, CUDA, *SANITIZERS))
