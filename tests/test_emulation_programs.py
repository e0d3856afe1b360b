"""Emulations of programs at their edges: what is used again, what has to run once more, and who ends first."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from prism.coordinator import Coordinator
from prism.crew import Crew
from prism.result import Result
from prism.scenario import Calibrate, Capture, Emulate, Scenario
from tests.running import emulate, scenario

PROGRAMS = Path(__file__).with_name("programs")
STAGES = ("capture", "calibrate", "replay", "emulate")


def averages(**emulate: Any) -> Scenario:
    """Two ranks that average, one of them in the sandbox, on made-up results."""
    return scenario(
        PROGRAMS / "averages.py",
        ("3",),
        stages=STAGES,
        capture=Capture(payloads="none"),
        calibrate=Calibrate(warmup=1),
        emulate=Emulate(contribution="zeros", **emulate),
    )


def run_twice(given: Scenario, out: Path, sandbox: list[int] | None = None, between: Any = None) -> list[Result]:
    """All stages, the first time with this sandbox, and then all again as --resume does."""

    async def run() -> list[Result]:
        results = []
        async with Crew() as crew:
            for resume in (False, True):
                if resume and between is not None:
                    between()
                async with Coordinator(given, out, resume=resume, crew=crew) as stages:
                    graph = await stages.calibrate(await stages.capture())
                    stages.replay(graph)
                    results.append(await stages.emulate(graph, None if resume else sandbox))
        return results

    return asyncio.run(run())


def test_the_emulation_of_other_ranks_does_not_stand_for_that_of_the_scenario(tmp_path: Path) -> None:
    first, second = run_twice(averages(sandbox=(0,)), tmp_path / "out", [1])
    assert first.emulation is not None
    assert second.emulation is not None
    assert (first.emulation.sandbox, second.emulation.sandbox) == ([1], [0])


def test_an_emulation_that_is_used_again_keeps_the_warnings_of_calibration(tmp_path: Path) -> None:
    first, second = run_twice(averages(), tmp_path / "out")
    assert second.stages["emulate"].status == "reused"
    assert "synthesised" in [warning.kind for warning in first.warnings]
    assert [warning.kind for warning in second.warnings] == [warning.kind for warning in first.warnings]


def test_another_program_that_was_edited_is_emulated_again(tmp_path: Path) -> None:
    program = tmp_path / "another.py"
    program.write_text((PROGRAMS / "averages.py").read_text())

    def edit() -> None:
        program.write_text(program.read_text() + "# edited\n")

    _, second = run_twice(averages(program=str(program)), tmp_path / "out", between=edit)
    assert [second.stages[stage].status for stage in STAGES] == ["reused", "reused", "ok", "ok"]


def test_a_rank_that_ends_first_still_gives_the_others_what_they_wait_for(tmp_path: Path) -> None:
    given = scenario(
        PROGRAMS / "leaves_a_broadcast.py",
        world=3,
        stages=STAGES,
        hang_after=20 * 10**9,
        emulate=Emulate(sandbox=(0, 1)),
    )
    run = emulate(given, tmp_path / "out")
    assert run.result.diagnosis is None
    assert run.output[1] == "1.0 1.0\n"
