"""Which files a run leaves beside its result."""

from __future__ import annotations

from pathlib import Path

import pytest
from report.tiny import tiny_job

from prism.folder import Folder
from prism.report.views import write_views
from prism.result import Result
from prism.scenario import Scenario

RESULT = Result(scenario="job", status="ok", world_size=2)


def scenario(tmp_path: Path, formats: str) -> Scenario:
    (tmp_path / "train.py").touch()
    text = f"prism: 1\nname: job\nprogram: {{script: train.py}}\nworld: {{size: 2}}\noutput: {{formats: {formats}}}\n"
    (tmp_path / "job.yaml").write_text(text)
    return Scenario.load(tmp_path / "job.yaml")


@pytest.mark.parametrize(
    ("formats", "files"),
    [
        ("[]", []),
        ("[html]", ["report.html"]),
        ("[perfetto]", ["timeline.pftrace"]),
        ("[kineto]", ["kineto/rank0.json", "kineto/rank1.json"]),
        ("[chakra]", ["chakra/groups.json", "chakra/trace.0.et", "chakra/trace.1.et"]),
    ],
)
def test_a_format_is_written_where_it_is_asked_for(tmp_path: Path, formats: str, files: list[str]) -> None:
    folder = Folder(tmp_path / "out")
    folder.begin(resume=False)
    write_views(folder, RESULT, tiny_job(), scenario(tmp_path, formats))
    assert sorted(str(p.relative_to(folder.path)) for p in folder.path.rglob("*") if p.is_file()) == files


def test_a_run_without_a_timeline_leaves_its_report(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "out")
    folder.begin(resume=False)
    write_views(folder, RESULT, None, scenario(tmp_path, "[html, perfetto, kineto, chakra]"))
    assert [path.name for path in folder.path.iterdir()] == ["report.html"]


def test_a_new_capture_takes_the_old_views_away(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "out")
    folder.begin(resume=False)
    write_views(folder, RESULT, tiny_job(), scenario(tmp_path, "[html, perfetto, kineto, chakra]"))
    folder.clear_capture()
    assert not [path for path in folder.path.rglob("*") if path.is_file()]
