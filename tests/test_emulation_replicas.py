"""What a sandbox rank gets from virtual ones with `replicas`: one rule for a CPU and for a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from prism.scenario import Calibrate, Emulate
from tests.running import emulate, scenario
from tests.test_emulation_on_device import PROGRAMS, STAGES, Emulated, on_device

GOT = """\
broadcast [[1.0, 2.0, 3.0]]
all_gather [[1.0, 2.0], [1.0, 2.0]]
scatter [[0.0, 0.0]]
gather [[1.0, 2.0], [0.0, 0.0]]
all_to_all [[1.0, 2.0, 0.0, 0.0]]
recv [[0.0, 0.0]]
"""

STRIDED = "broadcast of a transposed tensor [[1.0, 3.0, 5.0, 2.0, 4.0, 6.0]]\n"

__all__ = ["on_device"]


def test_on_a_cpu(tmp_path: Path) -> None:
    given = scenario(
        PROGRAMS / "gets_from_another.py", ("strided",), 2, stages=STAGES, calibrate=Calibrate(warmup=1),
        emulate=Emulate(sandbox=(0,), contribution="replicas"),
    )  # fmt: skip
    got = GOT.replace("all_gather", f"{STRIDED}all_gather")
    assert emulate(given, tmp_path / "out").output == [2 * got]


@pytest.mark.usefixtures("on_device")
def test_on_a_gpu(tmp_path: Path) -> None:
    program = PROGRAMS / "gets_from_another.py"
    run = Emulated(program, (), 2, tmp_path / "out", sandbox=(0,), contribution="replicas")
    ((_, emulated),) = run.logs
    assert emulated == 2 * GOT
