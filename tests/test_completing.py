"""What a shell is told when somebody presses the tab key."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from prism.command.main import main, run

COORDINATOR = Path(__file__).parents[1] / "prism" / "coordinator.py"


def completed(typed: str, folder: Path) -> list[str]:
    """What is offered for the last word of `python -m prism.coordinator TYPED`, as argcomplete's shell code asks."""
    line = f"python -m prism.coordinator {typed}"
    answer = folder / "answer"
    asked = {
        "_ARGCOMPLETE": "3",  # the command is the first three words
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
    }
    subprocess.run(
        [sys.executable, "-m", "prism.coordinator"], cwd=folder, env={**os.environ, **asked}, check=True, timeout=60
    )
    return [word.strip() for word in answer.read_text().split("\n")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("moe.yaml", "train.py", "notes.txt"):
        (tmp_path / name).touch()
    return tmp_path


def test_scenarios_flags_stages_and_keys_are_offered(folder: Path) -> None:
    assert completed("m", folder) == ["moe.yaml"]
    assert completed("moe.yaml --st", folder) == ["--stages"]
    assert completed("--init t", folder) == ["train.py"]
    assert completed("moe.yaml --stages capture,c", folder) == ["capture,calibrate"]
    assert completed("moe.yaml --set network.intra_node.b", folder) == ["network.intra_node.bandwidth="]
    assert completed("moe.yaml --set calibrate.w", folder) == ["calibrate.warmup="]


def test_the_module_says_that_it_can_be_asked() -> None:
    assert "PYTHON_ARGCOMPLETE_OK" in COORDINATOR.read_text()[:1024], "else the shell does not ask for python -m"


def test_nobody_is_answered_who_does_not_ask(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "a scenario file is missing" in capsys.readouterr().err


def test_the_command_that_is_installed_is_this_one() -> None:
    project = tomllib.loads((COORDINATOR.parents[1] / "pyproject.toml").read_text())["project"]
    module, _, name = project["scripts"]["prism"].partition(":")
    assert getattr(importlib.import_module(module), name) is run
