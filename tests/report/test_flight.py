"""torch's own analyser of flight recorder dumps finds in ours what PRISM's diagnosis says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.running import capture, scenario

MISSING = "Not all ranks joining collective"
TESTS = Path(__file__).parent.parent


def analysed(program: str, world: int, out: Path, *arguments: str, **blocks: Any) -> str:
    """What the analyser says of a capture of the program that failed."""
    run = capture(scenario(TESTS / program, arguments, world, **blocks), out)
    assert run.result.diagnosis is not None
    command = [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", str(out / "flight")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("program", "world", "argument", "told"),
    [
        (
            "programs/unequal_elements.py",
            3,
            "",
            ["number: 2 has errors", "SIZE_OR_SYNTAX_MISMATCH", "'[[14]]'", "'[[15]]'", "at unequal_elements.py:"],
        ),
        (
            "programs/skipped_all_reduce.py",
            3,
            "",
            ["number: 2 has errors", "COLLECTIVE_TYPE_MISMATCH", "'all_reduce'", "'barrier'"],
        ),
        ("programs/leaves.py", 2, "return", [f"{MISSING}, sequence number: 2", "missing ranks: {1}"]),
        ("programs/skipped_in_group.py", 3, "", [MISSING, "missing ranks: {1}", "expected ranks: {0, 1}"]),
        (
            "programs/both_receive_first.py",
            2,
            "",
            [MISSING, "default between 0-1", "gloo:recv 0<-1", "missing ranks: {1}", "gloo:recv 1<-0"],
        ),
        (
            "cases/22_gather_gated_on_local_state.py",
            4,
            "same_group",
            ["number: 2 has errors", "COLLECTIVE_TYPE_MISMATCH", "'all_gather'", "'all_reduce'"],
        ),
    ],
)
def test_the_analyser_finds_what_is_wrong(
    program: str, world: int, argument: str, told: list[str], tmp_path: Path
) -> None:
    text = analysed(program, world, tmp_path / "out", *filter(None, [argument]))
    assert [words for words in told if words not in text] == []


@pytest.mark.parametrize("semantics", ["gloo", "nccl"])
def test_the_analyser_finds_nothing_else(semantics: str, tmp_path: Path) -> None:
    text = analysed("programs/last_left_out.py", 3, tmp_path / "out", semantics=semantics)
    assert (text.count(MISSING), text.count("has errors")) == (1, 0)
    missing = r"missing ranks: \{(0, )?1(, 2)?\}"  # when the first rank has left, one beside it may be on its way
    assert re.search(rf"collective: {semantics}:all_reduce\n{missing}", text)


def test_there_is_no_dump_of_a_run_that_went_well(tmp_path: Path) -> None:
    capture(scenario(TESTS / "programs" / "holds_by_rank.py", world=2), tmp_path / "out")
    assert not (tmp_path / "out" / "flight").exists()
