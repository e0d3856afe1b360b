"""What ends an iteration: functions of the script, of modules beside it, and what is no function."""

from __future__ import annotations

from pathlib import Path

import pytest

from prism.scenario import Calibrate, Emulate, Iteration, Program
from tests.running import capture, emulate, scenario

PROGRAMS = Path(__file__).with_name("programs")
STEPS = PROGRAMS / "steps.py"


@pytest.mark.parametrize(
    "marker",
    [
        "steps_library:finish",
        "steps:make_a_step",
        "__main__:Trainer.step",
    ],
)
def test_a_function_ends_an_iteration_wherever_it_is_from(marker: str, tmp_path: Path) -> None:
    run = capture(scenario(STEPS, world=2, iteration=Iteration(marker=marker)), tmp_path / "out")
    assert run.result.diagnosis is None
    assert [rank.iterations for rank in run.result.ranks] == [4, 4]


@pytest.mark.parametrize(
    ("module", "marker"),
    [
        ("tests.programs.packed", "__main__:make_a_step"),
        ("tests.programs.packed", "tests.programs.packed.__main__:make_a_step"),
        ("tests.programs.packed", "tests.programs.packed:finish"),
        ("tests.programs.packed.__main__", "tests.programs.packed.__main__:make_a_step"),
    ],
)
def test_a_function_of_a_module_that_is_the_program_ends_an_iteration(module: str, marker: str, tmp_path: Path) -> None:
    job = scenario(STEPS, program=Program(module=module), iteration=Iteration(marker=marker))
    run = capture(job, tmp_path / "out")
    assert run.result.diagnosis is None
    assert [rank.iterations for rank in run.result.ranks] == [4, 4]


def test_what_is_no_function_is_said(tmp_path: Path) -> None:
    run = capture(scenario(STEPS, world=1, iteration=Iteration(marker="steps_library:begin")), tmp_path / "out")
    assert run.result.diagnosis is not None
    assert "has no attribute 'begin'); write module:qualname" in run.result.diagnosis.summary


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        (1, []),
        (
            5,
            [
                "the first torch optimizer stepped 5 times between two steps of another, and each of its steps counts "
                "as an iteration; if yours has them all, name a function that ends it, iteration.marker"
            ],
        ),
    ],
)
def test_an_optimizer_that_steps_more_often_than_another_is_noticed(
    steps: int, told: list[str], tmp_path: Path
) -> None:
    run = capture(scenario(PROGRAMS / "critic.py", (str(steps),)), tmp_path / "out")
    assert [rank.iterations for rank in run.result.ranks] == [3 * steps] * 2
    assert [(one.kind, one.ranks) for one in run.result.warnings] == [("uneven_steps", [0, 1])] * len(told)
    assert [one.summary for one in run.result.warnings] == told


def test_what_a_sandbox_rank_notices_again_is_told_once(tmp_path: Path) -> None:
    given = scenario(
        PROGRAMS / "critic.py",
        ("2",),
        stages=("capture", "calibrate", "replay", "emulate"),
        calibrate=Calibrate(warmup=1),
        emulate=Emulate(sandbox=(1,)),
    )
    told = emulate(given, tmp_path / "out").result.warnings
    assert [one.ranks for one in told if one.kind == "uneven_steps"] == [[0, 1]]
