"""What the calls of torch.distributed give: the values that real gloo gives, or those computed by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from gloo_reference import run_gloo

from prism.scenario import Program
from tests.running import capture, scenario

PROGRAMS = Path(__file__).with_name("programs")
WORLD = 4


def printed(program: str, slots: int, face: str, out: Path) -> list[list[str]]:
    """The lines of each rank under PRISM, with the C++ or the Python process group."""
    script = PROGRAMS / program
    chosen = Program(script=str(script), env={"PRISM_PROCESS_GROUP": face})
    run = capture(scenario(script, world=WORLD, slots=slots, program=chosen), out)
    assert (run.result.diagnosis, run.result.warnings) == (None, [])
    return [text.splitlines() for text in run.output]


@pytest.fixture(scope="module")
def real() -> list[list[str]]:
    """The lines of each rank under gloo."""
    return [text.splitlines() for text in run_gloo(PROGRAMS / "collectives.py", [], WORLD)]


@pytest.mark.parametrize(("face", "slots"), [("native", 1), ("native", 2), ("python", 2)])
def test_every_call_gives_what_gloo_gives(face: str, slots: int, real: list[list[str]], tmp_path: Path) -> None:
    assert len(real[0]) > 80
    found = printed("collectives.py", slots, face, tmp_path / "out")
    for rank, (lines, expected) in enumerate(zip(found, real, strict=True)):
        assert lines == expected, f"rank {rank}"


def beyond_gloo(rank: int) -> list[str]:
    """The lines of a rank, computed by hand."""
    gathered = [[float(i)] * (i + 1) for i in range(WORLD)]
    every_other = [float(i + 10 * (1 if i % 2 == 0 else rank)) for i in range(6)]
    total = float(sum(range(WORLD)))
    return [
        "all_reduce avg of integers [1, 15]",  # 6 / 4, cut off as NCCL does, and 60 / 4
        "all_reduce max of bool [True, False, True]",
        " ".join(["all_gather uneven", *map(str, gathered)]),
        f"all_gather_into_tensor stacked {[[float(i)] * 2 for i in range(WORLD)]}",
        f"reduce_scatter uneven {[total] * rank}",
        " ".join(["all_to_all uneven", *(str([float(i)] * rank) for i in range(WORLD))]),
        f"broadcast of every other element {every_other}",
        "coalesced all_gather_into_tensor [0.0, 1.0, 2.0, 3.0] [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0]",
        f"coalesced reduce_scatter_tensor {[4.0 * rank]} {[4.0 * rank] * 2}",
    ]


@pytest.mark.parametrize(("face", "slots"), [("native", 1), ("native", 2), ("python", 2)])
def test_calls_that_gloo_lacks_give_what_they_should(face: str, slots: int, tmp_path: Path) -> None:
    assert printed("beyond_gloo.py", slots, face, tmp_path / "out") == [beyond_gloo(rank) for rank in range(WORLD)]


@pytest.mark.parametrize("face", ["native", "python"])
def test_calls_that_do_not_fit_are_refused_where_they_are_made(face: str, tmp_path: Path) -> None:
    found = printed("refused_here.py", 2, face, tmp_path / "out")
    assert [lines[-1] for lines in found] == ["REFUSED 6 [4.0, 4.0]"] * WORLD
