"""Spilling takes memory from a process, and nothing else: what it held is there whenever it looks."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("spilled_program.py")
MIB = 1 << 20

pytestmark = pytest.mark.skipif(importlib.util.find_spec("prism.gpu._spill") is None, reason="ext/spill is not built")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the program found in a process of its own."""
    folder = tmp_path_factory.mktemp("spill")
    command = [sys.executable, str(PROGRAM), str(folder)]
    mapped = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "131072"}  # large blocks are mappings, which the kernel enlarges
    done = subprocess.run(command, env=mapped, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not list(folder.iterdir()), "the file has no name"
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_what_is_spilled_is_not_held_any_more_and_reads_as_before(found: dict[str, Any]) -> None:
    assert (found["opened"], found["status"]) == (0, 0)
    assert found["spilled"] > 10 * MIB
    assert found["intact"]


def test_what_changes_is_spilled_again(found: dict[str, Any]) -> None:
    assert found["again"] == 0
    assert found["changed"] == [7, 8, True]


def test_memory_that_is_enlarged_after_it_was_spilled_takes_nobody_elses_place(found: dict[str, Any]) -> None:
    assert found["growth"] == [0] * 8
    assert found["grown"] == [4 * MIB] * 16


def test_threads_that_compute_lose_nothing(found: dict[str, Any]) -> None:
    assert found["while threads run"] == [0] * 10
    assert found["failures"] == []


def test_a_child_sees_what_was_there_when_it_was_forked(found: dict[str, Any]) -> None:
    assert (found["after a fork"], found["child"], found["parent"]) == (0, 0, 9)
