"""A bound on the host's memory: ranks spill and the job does the same as without, or the run is refused in time."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from prism.coordinator import Coordinator
from prism.crew import Crew
from prism.errors import RunError
from prism.live.observer import Silent
from prism.net.scratch import lies_in_memory
from prism.scenario import Devices, Scenario
from tests.running import capture, on_the_bench, scenario

PROGRAM = Path(__file__).with_name("programs") / "holds_and_sums.py"
RANKS = 9
MIB = 1 << 20

pytestmark = pytest.mark.skipif(importlib.util.find_spec("prism.gpu._spill") is None, reason="ext/spill is not built")


class Heard(Silent):
    """Notes what a run says."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A folder to spill to."""
    if lies_in_memory(tmp_path):
        pytest.skip("temporary files lie in memory here")
    folder = tmp_path / "spill"
    folder.mkdir()
    return folder


def bounded(mib: int, spill: Path | None = None) -> Scenario:
    devices = Devices(kind="cpu", slots=2, host_memory=mib * MIB, spill=str(spill) if spill else None)
    return scenario(PROGRAM, world=RANKS, devices=devices)


def test_ranks_that_spill_do_the_same_as_ranks_that_need_not(disk: Path, tmp_path: Path) -> None:
    heard = Heard()

    async def work(crew: Crew) -> None:
        async with Coordinator(bounded(340, disk), tmp_path / "out", observer=heard, crew=crew) as run:
            await run.capture()

    on_the_bench(work)
    free = capture(scenario(PROGRAM, world=RANKS), tmp_path / "free")
    for rank, text in enumerate(free.output):
        assert (tmp_path / "out" / "ranks" / f"{rank}.log").read_text() == text
    told = [line for line in heard.lines if "of host memory" in line]
    assert told
    assert told[-1].startswith(f"{RANKS} ranks will take about ")
    assert told[-1].endswith("they spill what they hold above 340.0 MiB")
    assert not list(disk.iterdir()), "what was spilled has no name"


def test_what_cannot_fit_is_refused_with_the_fix(disk: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"devices.host_memory: 300.0 MiB are taken by \d of 9 ranks.*set devices.spill"):
        capture(bounded(300), tmp_path / "held_back")
    with pytest.raises(RunError, match=r"devices.host_memory: 240.0 MiB .*(are the least|raise it)"):
        capture(bounded(240, disk), tmp_path / "spilled")


def test_a_folder_that_is_not_on_a_disk_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"\$.devices.spill: .* is not there; make it, on a disk"):
        capture(bounded(100, tmp_path / "nowhere"), tmp_path / "out")
    with pytest.raises(RunError, match=r"\$.devices.spill: /dev/shm lies in memory itself; name a folder on a disk"):
        capture(bounded(100, Path("/dev/shm")), tmp_path / "other")
