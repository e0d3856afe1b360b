"""What a result tells of stages that are used again, whichever of them are asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from prism.command.main import main
from prism.result import Result

SCENARIO = """\
prism: 1
name: reused
program: {script: PROGRAM, args: ["4"]}
world: {size: 2}
capture: {payloads: none}
calibrate: {warmup: 1}
output: {formats: []}
"""


@pytest.mark.parametrize("again", ["replay", "capture,replay", "capture,calibrate,replay"])
def test_a_calibration_that_is_used_again_brings_its_warnings(again: str, tmp_path: Path) -> None:
    given, out = tmp_path / "reused.yaml", tmp_path / "out"
    given.write_text(SCENARIO.replace("PROGRAM", str(Path(__file__).with_name("programs") / "averages.py")))
    command = [str(given), "--out", str(out), "-q", "--stages"]
    assert main([*command, "capture,calibrate,replay"]) == 0
    first = Result.load(out / "result.json").warnings
    assert "synthesised" in [warning.kind for warning in first]
    assert main([*command, again, "--resume"]) == 0
    assert Result.load(out / "result.json").warnings == first
