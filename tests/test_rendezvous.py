"""Where ranks meet, and as what: addresses have stores of their own, and a world is the one that the scenario says."""

from __future__ import annotations

from pathlib import Path

from tests.running import capture, scenario

PROGRAM = Path(__file__).with_name("programs") / "rendezvous.py"


def test_at_another_address_is_nothing_of_what_was_left_at_the_first(tmp_path: Path) -> None:
    run = capture(scenario(PROGRAM, ("2", "29601", "29602")), tmp_path / "out")
    assert run.result.diagnosis is None
    assert run.output == ["1 True True False\n" * 2] * 2


def test_at_the_same_address_is(tmp_path: Path) -> None:
    diagnosis = capture(scenario(PROGRAM, ("2", "29601", "29601")), tmp_path / "out").result.diagnosis
    assert diagnosis is not None
    assert "the store still holds what an earlier init_process_group left in it" in diagnosis.summary


def test_a_world_of_another_size_is_refused(tmp_path: Path) -> None:
    diagnosis = capture(scenario(PROGRAM, ("8", "29601")), tmp_path / "out").result.diagnosis
    assert diagnosis is not None
    told = "init_process_group with rank 1 of 8: this process is rank 1 of 2, and other numbers are not available yet"
    assert told in diagnosis.summary
