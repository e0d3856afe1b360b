"""What a rank does beside its main line: it makes stores and starts processes, and its other threads post."""

from __future__ import annotations

from pathlib import Path

import pytest

from prism.scenario import Calibrate, Emulate
from tests.running import capture, emulate, predict, scenario

PROGRAMS = Path(__file__).with_name("programs")
STAGES = ("capture", "calibrate", "replay", "emulate")
LOGS = ("log", "calibrate.log")


def test_a_rank_finds_in_its_own_stores_what_ranks_put_there_that_do_not_run(tmp_path: Path) -> None:
    given = scenario(
        PROGRAMS / "makes_stores.py",
        (str(tmp_path), "29871"),
        world=3,
        stages=STAGES,
        calibrate=Calibrate(warmup=1),
        emulate=Emulate(sandbox=(1,)),
    )
    run = emulate(given, tmp_path / "out")
    captured = (tmp_path / "out" / "ranks" / "1.log").read_text()
    assert [line.split(",")[0] for line in captured.splitlines()] == ["0 (6", "1 (6", "2 (6", "3 (6"]
    assert run.output == [captured]
    assert not (tmp_path / "store").exists()


def test_another_thread_may_post_at_another_moment_than_in_the_capture(tmp_path: Path) -> None:
    given = scenario(PROGRAMS / "posts_beside.py", (str(tmp_path),), calibrate=Calibrate(warmup=1))
    predict(given, tmp_path / "out")
    logs = [(tmp_path / "out" / "ranks" / f"{rank}.{suffix}").read_text() for rank in (0, 1) for suffix in LOGS]
    assert logs == [logs[0]] * 4


@pytest.mark.parametrize("sandbox", [(1,), (0, 1)])
def test_another_thread_may_post_at_another_moment_in_an_emulation(sandbox: tuple[int, ...], tmp_path: Path) -> None:
    given = scenario(
        PROGRAMS / "posts_beside.py",
        (str(tmp_path),),
        world=3,
        stages=STAGES,
        calibrate=Calibrate(warmup=1),
        emulate=Emulate(sandbox=sandbox, contribution="exact"),
    )
    run = emulate(given, tmp_path / "out")
    assert run.result.diagnosis is None
    assert run.output == [(tmp_path / "out" / "ranks" / f"{rank}.log").read_text() for rank in sandbox]


def test_a_process_that_the_program_starts_is_no_rank(tmp_path: Path) -> None:
    run = capture(scenario(PROGRAMS / "spawns.py"), tmp_path / "out")
    assert all(output.startswith("loaded 7\n") for output in run.output)
    assert run.result.diagnosis is not None
    assert run.result.diagnosis.kind == "rank_failed"
    assert "is no rank and cannot join a process group" in run.result.diagnosis.summary
