"""What ends an iteration: functions of the script, of modules beside it, and what is no function."""

from __future__ import annotations

from pathlib import Path

import pytest

from prism.scenario import Iteration
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


def test_what_is_no_function_is_said(tmp_path: Path) -> None:
    run = capture(scenario(STEPS, world=1, iteration=Iteration(marker="steps_library:begin")), tmp_path / "out")
    assert run.result.diagnosis is not None
    assert "has no attribute 'begin'); write module:qualname" in run.result.diagnosis.summary
