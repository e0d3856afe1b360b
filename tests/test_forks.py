"""What a process does that a rank has forked is not what the rank does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.running import capture, scenario

PROGRAM = Path(__file__).with_name("programs") / "forks.py"


@pytest.mark.parametrize(("act", "code"), [("exit", 5), ("raise", 1), ("step", 5), ("communicate", 1)])
def test_what_a_child_does_is_not_the_ranks(act: str, code: int, tmp_path: Path) -> None:
    run = capture(scenario(PROGRAM, (act,), world=3), tmp_path / "out")
    assert [output.splitlines()[-1] for output in run.output] == [f"{code} 3"] * 3
    assert [rank.iterations for rank in run.result.ranks] == [1] * 3
    assert run.result.diagnosis is None


def test_a_child_that_communicates_is_told_why_it_cannot(tmp_path: Path) -> None:
    run = capture(scenario(PROGRAM, ("communicate",), world=2), tmp_path / "out")
    refusal = "RuntimeError: a process that rank 1 has forked cannot communicate in the rank's place"
    assert refusal in run.output[1]
