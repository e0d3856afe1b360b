"""A program that is captured twice gives the same graph, byte for byte, and so does what is computed from it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from prism.scenario import Program, Scenario
from tests.running import capture

SCENARIO = Path(__file__).parents[1] / "scenarios" / "quickstart.yaml"


def test_two_captures_write_the_same_graph(tmp_path: Path) -> None:
    given = Scenario.load(SCENARIO)
    program = Program(script=str(given.script), args=("--iterations", "2"))
    given = msgspec.structs.replace(given, program=program)
    runs = [capture(given, tmp_path / name) for name in ("first", "second")]
    first, second = ((run.folder / "graph.prism").read_bytes() for run in runs)
    assert first == second
    assert runs[0].output == runs[1].output
