"""Programs that wait in ways of their own go on where only one rank may run at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from prism.scenario import Scenario
from tests.running import capture, scenario

PROGRAMS = Path(__file__).with_name("programs")


def on_one_slot(program: str, *arguments: str) -> Scenario:
    """The program on two ranks, one of which waits for its turn while the other runs."""
    return scenario(PROGRAMS / program, arguments, world=2, slots=1)


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        ("polls_work.py", ["[0.0, 1.0, 2.0, 3.0]\n"] * 2),
        ("polls_store.py", ["now\n", ""]),
        ("polls_counter.py", ["all here\n"] * 2),
        ("waits_on_future.py", ["[2.0, 2.0, 2.0, 2.0] [4.0, 4.0, 4.0, 4.0]\n"] * 2),
        ("waits_in_thread.py", ["[2.0, 2.0, 2.0, 2.0]\n"] * 2),
    ],
)
def test_waiting_goes_on_at_one_slot(program: str, printed: list[str], tmp_path: Path) -> None:
    run = capture(on_one_slot(program), tmp_path / "out")
    assert (run.result.diagnosis, run.output) == (None, printed)


@pytest.mark.parametrize("between", ["busy", "sleep"])
def test_polling_for_a_file_goes_on_at_one_slot(between: str, tmp_path: Path) -> None:
    run = capture(on_one_slot("polls_file.py", str(tmp_path / "file"), between), tmp_path / "out")
    assert (run.result.diagnosis, run.output) == (None, ["seen\n"] * 2)
