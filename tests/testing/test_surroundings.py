"""Ranks of a test find its environment and its working directory as they are when it calls prism_world."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from prism.testing import Worlds

NAMES = ("KEPT", "CHANGED", "GONE", "NEW")


def variables() -> list[str | None]:
    """What a rank finds of NAMES."""
    return [os.environ.get(name) for name in NAMES]


def test_variables_are_those_of_the_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES[:3]:
        monkeypatch.setenv(name, "before")
    with Worlds(tmp_path) as worlds:
        assert list(worlds.run(variables, 2)) == [["before", "before", "before", None]] * 2
        monkeypatch.setenv("CHANGED", "after")
        monkeypatch.delenv("GONE")
        monkeypatch.setenv("NEW", "after")
        assert list(worlds.run(variables, 2)) == [["before", "after", None, "after"]] * 2
        monkeypatch.undo()
        assert list(worlds.run(variables, 2)) == [[None] * 4] * 2


def test_a_variable_need_not_be_text(prism_world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(prism_world(os.getenv, "NEW", size=1)) == [None]
    monkeypatch.setenv("NEW", os.fsdecode(b"\xff="))
    assert list(prism_world(os.getenv, "NEW", size=1)) == [os.fsdecode(b"\xff=")]


def test_the_working_directory_is_that_of_the_moment(
    prism_world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(prism_world(os.getcwd, size=2)) == [os.getcwd()] * 2
    monkeypatch.chdir(tmp_path)
    assert list(prism_world(os.getcwd, size=2)) == [str(tmp_path)] * 2
    monkeypatch.undo()
    assert list(prism_world(os.getcwd, size=2)) == [os.getcwd()] * 2


def test_scripts_find_them_too(prism_world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "says.py"
    script.write_text("import os\nprint(os.environ.get('NEW'), os.getcwd())")
    assert prism_world(script, size=1).log(0) == f"None {os.getcwd()}\n"
    monkeypatch.setenv("NEW", "after")
    monkeypatch.chdir(tmp_path)
    assert prism_world(script, size=1).log(0) == f"after {tmp_path}\n"


def test_what_is_set_for_ranks_stays(prism_world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "OMP_NUM_THREADS", "MALLOC_ARENA_MAX", "PYTHONHASHSEED")

    def found() -> list[str | None]:
        return [os.environ.get(name) for name in names]

    before = list(prism_world(found, size=2))
    for name in names:
        monkeypatch.setenv(name, "9")
    assert list(prism_world(found, size=2)) == before
    assert before[1][:2] == ["1", "2"]
    for name in names:
        monkeypatch.delenv(name)
    assert list(prism_world(found, size=2)) == before


def test_modules_are_found_where_they_were(prism_world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def path() -> list[str]:
        return sys.path

    before = list(prism_world(path, size=1))
    monkeypatch.chdir(tmp_path)
    assert list(prism_world(path, size=1)) == before
