"""What the output folder knows of a run: the program that its stages are of, and what a capture found."""

from __future__ import annotations

from pathlib import Path

import pytest

from prism.core.stage.kept import EVERYTHING
from prism.progress import Captured, digests
from prism.result import RankResult, Result
from prism.scenario import Program, Scenario, World


@pytest.mark.parametrize("file", ["jobs/train.py", "jobs/train/__main__.py"])
def test_a_module_is_another_program_when_its_text_is_another(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = Scenario(name="job", program=Program(module="jobs.train"), world=World(size=2))
    Path(file).parent.mkdir(parents=True)
    Path(file).write_text("step = 1\n")
    before = digests(given, "torch")
    assert digests(given, "torch") == before
    Path(file).write_text("step = 2\n")
    assert all(digest != before[stage] for stage, digest in digests(given, "torch").items())


def test_what_a_replay_finds_of_a_rank_is_not_what_the_capture_found() -> None:
    result = Result(scenario="job", status="partial", world_size=1, ranks=[RankResult(rank=0, exit=0)])
    captured = Captured.of(result, EVERYTHING)
    result.ranks[0].compute_ns = 7
    again = Result(scenario="job", status="partial", world_size=1)
    captured.into(again)
    assert again.ranks[0].compute_ns is None
    again.ranks[0].compute_ns = 8
    assert captured.ranks[0].compute_ns is None
