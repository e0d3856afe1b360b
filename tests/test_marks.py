"""What ends an iteration: functions of the script, of modules beside it, and what is no function."""

from __future__ import annotations

from pathlib import Path

import pytest

from prism.scenario import Iteration, Program
from tests.running import capture, scenario

STEPS = Path(__file__).with_name("programs") / "steps.py"


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
