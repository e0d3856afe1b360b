"""Programs that cannot end well: each ends at once with the diagnosis that names who, where, and in which operation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from prism.core.diagnosis import Diagnosis, LastCommon
from prism.result import Result
from prism.scenario import Program
from tests.running import capture, scenario

PROGRAMS = Path(__file__).with_name("programs")

Standing = tuple[int, str | None, str | None, int | None, str | None]
"""Where a rank stands: rank, op, group, seq, and the letter of its site."""


@dataclass(frozen=True)
class Failure:
    """A program, its argument, and what its diagnosis has to say; the summary must hold all of the words."""

    program: str
    kind: str
    standings: list[Standing]
    words: list[str]
    argument: str = ""
    world: int = 3
    last_common: LastCommon | None = None
    cycle: list[int] | None = None


LEFT: list[Standing] = [
    (1, None, None, None, "B"),
    (0, "all_reduce", "default", 2, "A"),
    (2, "all_reduce", "default", 2, "A"),
]
FAILURES = {
    "an all_reduce is left out": Failure(
        "skipped_all_reduce.py",
        "mismatch",
        [
            (0, "all_reduce", "default", 2, "A"),
            (1, "barrier", "default", 2, "B"),
            (2, "all_reduce", "default", 2, "A"),
        ],
        ["operation 2 of group default", "ranks 0, 2 posted all_reduce of 8 x float32", "rank 1 posted barrier"],
        last_common=LastCommon(op="all_reduce", group="default", seq=1),
    ),
    "an all_reduce of a sub-group is left out": Failure(
        "skipped_in_group.py",
        "deadlock",
        [(0, "all_reduce", "1", 2, "A"), (1, "barrier", "default", 1, "B"), (2, "barrier", "default", 1, "B")],
        ["rank 0 waits in all_reduce, operation 2", "which rank 1 has not posted", " in barrier, operation 1"],
        last_common=LastCommon(op="all_reduce", group="1", seq=1),
        cycle=[0, 1],
    ),
    "sizes differ": Failure(
        "unequal_elements.py",
        "mismatch",
        [
            (0, "all_reduce", "default", 2, "A"),
            (1, "all_reduce", "default", 2, "B"),
            (2, "all_reduce", "default", 2, "B"),
        ],
        ["rank 0 posted all_reduce of 14 x float32", "ranks 1-2 posted all_reduce of 15 x float32"],
        last_common=LastCommon(op="barrier", group="default", seq=1),
    ),
    "a rank raises": Failure(
        "raises.py",
        "rank_failed",
        [
            (2, None, None, None, "B"),
            (0, "all_reduce", "default", 2, "A"),
            (1, "all_reduce", "default", 2, "A"),
        ],
        ["rank 2 raised ValueError: shard 2 is unreadable", "ranks 0-1 wait in all_reduce"],
    ),
    "a rank is killed": Failure("leaves.py", "rank_failed", LEFT, ["rank 1 was killed by SIGKILL"], "kill"),
    "a rank exits with 3": Failure(
        "leaves.py",
        "rank_failed",
        [(1, None, None, None, "C"), *LEFT[1:]],
        ["rank 1 ended with exit code 3, last seen at leaves.py:17"],
        "exit",
    ),
    "a rank says why it exits": Failure(
        "leaves.py",
        "rank_failed",
        [(1, None, None, None, "D"), *LEFT[1:]],
        ["rank 1 ended with exit code 1: shard 7 is unreadable ..., last seen at leaves.py:19"],
        "says_why",
    ),
    "a rank is gone with 7": Failure(
        "leaves.py", "rank_failed", LEFT, ["rank 1 ended with exit code 7, last seen"], "os_exit"
    ),
    "a rank ends with 0": Failure(
        "leaves.py",
        "deadlock",
        [LEFT[1], LEFT[0]],
        [
            "rank 0 waits in all_reduce",
            "which rank 1 has not posted",
            "has ended (exit code 0), last seen at leaves.py:11",
        ],
        "return",
        world=2,  # a third might still be on its way when it is certain
        last_common=LastCommon(op="barrier", group="default", seq=1),
    ),
    "both receive first": Failure(
        "both_receive_first.py",
        "deadlock",
        [(0, "recv", "default", None, "A"), (1, "recv", "default", None, "A")],
        ["rank 0 waits in recv from rank 1", "rank 1 waits in recv from rank 0", "which has no matching send"],
        world=2,
        cycle=[0, 1],
    ),
    "a poll in vain": Failure(
        "polls_in_vain.py",
        "deadlock",
        [(0, "recv", "default", None, "A"), (1, None, None, None, "B")],
        ["rank 0 waits in recv from rank 1", "which has no matching send", "rank 1 has ended (exit code 0)"],
        world=2,
    ),
    "nobody sets the key": Failure(
        "missing_key.py",
        "deadlock",
        [(0, None, None, None, "A"), (1, "barrier", "default", 1, "B"), (2, "barrier", "default", 1, "B")],
        ["rank 0 waits for store key", "never", "ranks 1-2 wait in barrier"],
    ),
}


def diagnose(failure: Failure, slots: int, out: Path) -> Diagnosis:
    """Capture the program and return the diagnosis that its result.json holds."""
    arguments = (failure.argument,) if failure.argument else ()
    run = capture(scenario(PROGRAMS / failure.program, arguments, failure.world, slots), out)
    written = Result.load(out / "result.json")
    assert written == run.result
    assert (written.status, written.stages["capture"].status, run.graph) == ("failed", "failed", None)
    assert written.diagnosis is not None
    return written.diagnosis


def standings(diagnosis: Diagnosis, program: str) -> list[Standing]:
    """Where the ranks stand, in the order of the diagnosis, with call sites as the letters in the program's source."""
    letters = {
        f"{program}:{number}": line.rpartition("# site ")[2]
        for number, line in enumerate((PROGRAMS / program).read_text().splitlines(), 1)
        if "# site " in line
    }
    return [(r.rank, r.op, r.group, r.seq, letters.get(r.callsite or "")) for r in diagnosis.ranks]


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("failure", FAILURES.values(), ids=list(FAILURES))
def test_the_diagnosis_names_who_where_and_what(failure: Failure, slots: int, tmp_path: Path) -> None:
    found = diagnose(failure, slots, tmp_path / "out")
    told = standings(found, failure.program)
    on_their_way = {rank for rank, op, *_ in told if op is None and found.cycle and rank not in found.cycle}
    expected = [(one[0], None, None, None, None) if one[0] in on_their_way else one for one in failure.standings]
    assert (found.kind, told) == (failure.kind, expected)  # a cycle is certain before ranks beside it have come to wait
    assert [word for word in failure.words if word not in found.summary] == []
    assert found.cycle == failure.cycle
    if failure.kind != "rank_failed":
        assert found.last_common == failure.last_common


def test_an_exception_comes_with_its_traceback_first(tmp_path: Path) -> None:
    found = diagnose(FAILURES["a rank raises"], 2, tmp_path / "out")
    traceback = found.ranks[0].traceback or ""
    assert traceback.startswith("Traceback (most recent call last):\n")
    assert traceback.endswith("ValueError: shard 2 is unreadable\n")
    assert [rank.traceback for rank in found.ranks[1:]] == [None, None]
    assert traceback in (tmp_path / "out" / "ranks" / "2.log").read_text()


def test_a_diagnosis_does_not_depend_on_who_came_first(tmp_path: Path) -> None:
    found = [diagnose(FAILURES["sizes differ"], slots, tmp_path / f"{slots}") for slots in (1, 2, 3)]
    assert len({msgspec.json.encode(diagnosis) for diagnosis in found}) == 1


@pytest.mark.parametrize(
    ("what", "words"), [("mute", "Mute: <exception str() failed>"), ("surrogate", "ValueError: half of \\ud83d")]
)
def test_what_cannot_be_said_is_told_all_the_same(what: str, words: str, tmp_path: Path) -> None:
    run = capture(scenario(PROGRAMS / "unsayable.py", (what,), world=1), tmp_path / "out")
    assert run.result.diagnosis is not None
    assert f"rank 0 raised {words} at unsayable.py:11" in run.result.diagnosis.summary
    assert words in run.output[0]


def test_a_preload_that_fails_has_a_diagnosis_with_its_traceback(tmp_path: Path) -> None:
    (tmp_path / "lacks_data.py").write_text("raise FileNotFoundError('no tokens')\n")
    script, env = str(PROGRAMS / "averages.py"), {"PYTHONPATH": str(tmp_path)}
    given = scenario(PROGRAMS / "averages.py", program=Program(script=script, preload=("lacks_data",), env=env))
    found = capture(given, tmp_path / "out").result.diagnosis
    assert found is not None
    assert (found.kind, [rank.rank for rank in found.ranks]) == ("rank_failed", [0, 1])
    assert found.summary == "preload: lacks_data cannot be imported: FileNotFoundError: no tokens"
    traceback = found.ranks[0].traceback or ""
    assert f'{tmp_path}/lacks_data.py", line 1' in traceback
    assert traceback.endswith("FileNotFoundError: no tokens\n")
