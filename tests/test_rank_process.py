"""What a rank's process owes its program: its own time, its own environment, and no silence about a failed copy."""

from __future__ import annotations

import os
from pathlib import Path

from prism.core.stage.kept import EVERYTHING
from prism.folder import Folder
from prism.gpu.processes.zygote import NICENESS
from prism.progress import Captured, Done, Progress
from prism.scenario import Calibrate, Network, Program
from tests.running import capture, predict, scenario

PROGRAMS = Path(__file__).parent / "programs"
SLEEP_NS = 50_000_000


def test_compute_before_a_call_of_the_store_counts(tmp_path: Path) -> None:
    given = scenario(PROGRAMS / "asks_the_store.py", calibrate=Calibrate(warmup=0), network=Network(model="none"))
    run = predict(given, tmp_path / "out")
    assert all(rank.compute_ns is not None and rank.compute_ns >= 4 * SLEEP_NS for rank in run.result.ranks)


def test_a_program_that_has_no_iterations_is_told_so(tmp_path: Path) -> None:
    run = predict(scenario(PROGRAMS / "asks_the_store.py"), tmp_path / "out")
    assert [warning.kind for warning in run.result.warnings] == ["no_iterations"]


def test_a_result_that_cannot_be_copied_is_an_error_of_the_program(tmp_path: Path) -> None:
    run = capture(scenario(PROGRAMS / "overlapping_output.py"), tmp_path / "out")
    found = run.result.diagnosis
    assert found is not None
    assert found.kind == "rank_failed"
    assert found.ranks[0].rank == 1
    assert "went on" not in run.output[1]


def test_a_variable_of_one_run_does_not_reach_the_next(tmp_path: Path) -> None:
    script = PROGRAMS / "prints_variable.py"
    program = Program(script=str(script), env={"ONLY_FOR_ONE_RUN": "here"})
    assert capture(scenario(script, program=program), tmp_path / "first").output == ["here\n"] * 2
    assert capture(scenario(script), tmp_path / "second").output == ["None\n"] * 2


def test_the_working_directory_is_not_on_the_path(tmp_path: Path) -> None:
    script = tmp_path / "program" / "prints_path.py"
    script.parent.mkdir()
    script.write_text("import sys\nprint(sys.path[0], '' in sys.path, flush=True)\n")
    run = capture(scenario(script, world=1), tmp_path / "out")
    assert run.output == [f"{script.parent} False\n"]
    assert os.getcwd() not in run.output[0]


def test_a_capture_that_begins_takes_back_what_the_last_one_told(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "out")
    folder.begin(resume=False)
    done = {"capture": Done(digest="old", wall_s=1.0)}
    folder.save_progress(Progress(stages=done, captured=Captured(switches=0, ranks=[])))
    assert "capture" in folder.progress({"capture": "old"}, EVERYTHING).stages
    folder.clear_capture()
    assert folder.progress({"capture": "old"}, EVERYTHING).stages == {}


def test_what_the_fork_server_made_is_none_of_a_ranks_business(tmp_path: Path) -> None:
    run = capture(scenario(PROGRAMS / "tells_what_it_inherits.py", world=1), tmp_path / "out")
    assert run.output[0].splitlines() == [
        f"stands back {min(os.nice(0) + NICENESS, 19)}",
        "collects True frozen True",
        "finalizers 0 optimizer True",
        "left",
        "finalized",
    ]
