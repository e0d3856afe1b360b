"""`--init`: a program is probed, and the scenario that its user would begin with is written."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import uvloop

from prism.command.beginning.launch_line import LaunchLine, read_launch_line
from prism.command.beginning.probe import probe
from prism.command.beginning.sketch import sketch
from prism.command.hints import hints
from prism.errors import ProgramError, ScenarioError
from prism.live.terminal import on_standard_error


def begin(target: str, rest: Sequence[str], settings: Sequence[str], out: Path | None, quiet: bool) -> int:
    """Write the scenario to `out` or to NAME.yaml; returns the exit code, 3 where the program failed.

    A program that fails gets its scenario all the same, and in it how it failed. Raises ScenarioError.
    """
    line = _sized(read_launch_line(target, rest), settings)
    path = out or Path(f"{line.name}.yaml")
    if path.exists():
        raise ScenarioError(f"command line: --init: {path} exists; --out names another file")
    found = uvloop.run(probe(line, on_standard_error(quiet, 0)))
    command = " ".join(["python -m prism.coordinator --init", target, *(["--", *rest] if rest else [])])
    path.write_text(sketch(line, found, path, command))
    print(f"{path}: written; run it with `python -m prism.coordinator {path}`")
    doubt = found.few or found.unmarked
    if doubt:
        print(f"prism: warning: {doubt}", file=sys.stderr)
    if found.diagnosis is None:
        return 0
    print(f"prism: the probe failed: {found.diagnosis.summary}", file=sys.stderr)
    for text in (*found.printed[1:], *hints(found.diagnosis)):
        print(f"  {text}", file=sys.stderr)
    return ProgramError.exit_code


def _sized(line: LaunchLine, settings: Sequence[str]) -> LaunchLine:
    """The line with the world that --set gives."""
    for assignment in settings:
        key, _, value = assignment.partition("=")
        if not (value.isdigit() and int(value)) or key not in ("world.size", "world.ranks_per_node"):
            what = f"--set takes world.size=N and world.ranks_per_node=N, got {assignment}"
            raise ScenarioError(f"command line: --init: {what}")
        size = key == "world.size"
        line = line._replace(size=int(value), guessed=False) if size else line._replace(ranks_per_node=int(value))
    return line
