"""The lines of the program beside its call sites."""

from __future__ import annotations

from pathlib import Path

import pytest
from report.test_html import Page, stuck

from prism.report.html import render_html
from prism.report.sources import source_of, source_text
from prism.report.surroundings import Surroundings

PROGRAM = "import torch\n\n\ndef step(x):\n\tif x < 1:\n\t\tdist.all_reduce(x)\n\n\nstep(2)\n"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(PROGRAM)
    return tmp_path


def test_a_line_is_shown_among_its_neighbours_without_empty_ends(base: Path) -> None:
    lines = source_of("train.py:6 < train.py:9", base)
    assert [(line.number, line.text, line.here) for line in lines] == [
        (4, "def step(x):", False),
        (5, "    if x < 1:", False),
        (6, "        dist.all_reduce(x)", True),
    ]
    assert source_text("train.py:6", base) == "dist.all_reduce(x)"


@pytest.mark.parametrize("site", [None, "", "train.py", "train.py:0", "train.py:99", "missing.py:1", "train.py:x"])
def test_what_is_not_there_is_not_shown(site: str | None, base: Path) -> None:
    assert source_of(site, base) == []
    assert source_text(site, base) == ""
    assert source_of("train.py:6", None) == []


def test_a_diagnosis_has_each_line_once_and_as_text(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("\n" * 8 + "if a < b: dist.all_reduce('<i>')\n")
    html = render_html(stuck(), None, None, "t.yaml", 1, Surroundings(base=tmp_path))
    assert html.count("dist.all_reduce(") == 1
    assert "<i>'" not in html
    assert "9 if a < b: dist.all_reduce('<i>')" in Page(html).text
