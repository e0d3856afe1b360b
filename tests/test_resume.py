"""A calibration that was ended in the middle goes on with the slices that are missing, and comes to the same."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Literal

import msgspec

from prism.coordinator import Coordinator
from prism.crew import Crew
from prism.live.observer import Silent
from prism.result import Result
from prism.run import Interrupted
from prism.scenario import Calibrate, Devices, Network, Scenario
from tests.running import on_the_bench, scenario

ROOT = Path(__file__).parents[1]
VIRTUAL_TIME = ROOT / "benchmarks" / "programs" / "virtual_time.py"
SLEEPS = ROOT / "tests" / "programs" / "sleeps.py"


class Listening(Silent):
    """Notes what is said, and interrupts the run when so many slices are done."""

    def __init__(self, last: int = 1000) -> None:
        self.said: list[str] = []
        self.slices = 0
        self.last = last
        self.run: Coordinator | None = None

    def say(self, text: str) -> None:
        self.said.append(text)

    def step(self, done: int, total: int) -> None:
        self.slices = total
        if done == self.last and self.run is not None:
            self.run.interrupt()


def planned(answers: Literal["fast", "paced"], ms: str = "1 + rank + step") -> Scenario:
    """Eight ranks in slices of two; in virtual time, so that measurements are the same in every run, when `fast`."""
    return scenario(
        VIRTUAL_TIME,
        (str(SLEEPS), ms),
        8,
        devices=Devices(kind="cpu", slots=2),
        calibrate=Calibrate(warmup=1, answers=answers),
        network=Network(model="none"),
    )


def run(given: Scenario, out: Path, heard: Listening) -> Result:
    """Take the scenario as far as the replay, going on with what is in the folder."""

    async def stages(crew: Crew) -> Result:
        async with Coordinator(given, out, resume=True, observer=heard, crew=crew) as started:
            heard.run = started
            try:
                return started.replay(await started.calibrate(await started.capture()))
            except Interrupted:
                return started.result

    return on_the_bench(stages)


def ran(out: Path, stage: str = "calibrate") -> list[int]:
    """The ranks that ran in a stage, and forget them."""
    logs = sorted((out / "ranks").glob(f"*.{stage}.log"))
    ranks = [int(log.name.partition(".")[0]) for log in logs]
    for log in logs:
        log.unlink()
    return ranks


def predicted(result: Result) -> Result:
    """What is predicted; how long stages took and how often ranks took turns differs from run to run."""
    return msgspec.structs.replace(result, stages={}, switches=0)


def test_slices_that_were_measured_are_not_run_again(tmp_path: Path) -> None:
    out, given = tmp_path / "out", planned("fast")
    whole = run(given, tmp_path / "whole", Listening())
    assert run(given, out, Listening(last=3)).status == "partial"
    log = out / "slices.log"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert ran(out)[:6] == [0, 1, 2, 3, 4, 5]
    heard = Listening()
    resumed = run(given, out, heard)
    assert heard.said == ["slices 1-3 of 4 used again (fast)"]
    assert ran(out) == [6, 7]
    assert {name: stage.status for name, stage in resumed.stages.items()} == {
        "capture": "reused",
        "calibrate": "ok",
        "replay": "ok",
    }
    assert predicted(resumed) == predicted(whole)
    assert not log.exists(), "the stage is done"


def test_a_slice_that_was_being_written_is_measured_again(tmp_path: Path) -> None:
    out, given = tmp_path / "out", planned("fast")
    run(given, out, Listening(last=2))
    log = out / "slices.log"
    log.write_bytes(log.read_bytes()[:-1])
    ran(out)
    heard = Listening()
    run(given, out, heard)
    assert heard.said == [
        f"{log}: its last slice was being written, and is measured again",
        "slices 1 of 4 used again (fast)",
    ]
    assert ran(out) == [2, 3, 4, 5, 6, 7]


def test_slices_of_another_calibration_are_not_used(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(planned("fast"), out, Listening(last=2))
    ran(out)
    heard = Listening()
    changed = msgspec.structs.replace(planned("fast"), calibrate=Calibrate(warmup=2))
    run(changed, out, heard)
    assert heard.said == []
    assert ran(out) == list(range(8))


def test_paced_slices_are_used_again_too(tmp_path: Path) -> None:
    """Interrupted at the third slice of the second pass: a pass has four."""
    out, given = tmp_path / "out", planned("paced")
    steps: list[int] = []

    class Second(Listening):
        def step(self, done: int, total: int) -> None:
            steps.append(done)
            if len(steps) == 4 + 3 and self.run is not None:
                self.run.interrupt()

    run(given, out, Second())
    ran(out), ran(out, "emulate")
    heard = Listening()
    assert run(given, out, heard).status == "ok"
    assert heard.said == ["slices 1-4 of 4 used again (fast)", "slices 1-2 of 4 used again (paced)"]
    assert (ran(out), ran(out, "emulate")) == ([], [4, 5, 6, 7])
