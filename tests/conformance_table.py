"""The conformance table, docs/conformance.md: what works on real gloo and under PRISM, found by running every check.

`PYTHONPATH=. python tests/conformance_table.py` writes it anew, in some minutes.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from gloo_reference import run_gloo

from prism.scenario import Program
from tests.running import capture, scenario

PROGRAMS = Path(__file__).with_name("conformance")
TABLE = Path(__file__).parents[1] / "docs" / "conformance.md"
COMMAND = "PYTHONPATH=. .venv/bin/python tests/conformance_table.py"
WORLD = 4
TOLERANCE = 1e-6  # sums in another order

FAST = (
    "collectives", "uneven_all_gather", "coalescing_device", "messages", "groups", "detail_mode", "rendezvous",
    "rendezvous_tcp", "functional", "data_parallel", "bf16_hook", "sharded", "pipelining", "observers",
    "graph_breaks",
)  # fmt: skip
"""The programs that a test run can afford, in the order of the table."""

SLOW = ("zero_redundancy", "checkpoint", "compiled")
"""The programs that import or compile for many seconds."""

_HEAD = f"""# Conformance

What works on real gloo and under PRISM, with the process group in C++ and with the one in Python that stands in where
the C++ one was not built: every check of tests/conformance, on four ranks on a CPU. Where gloo can do it as well, "yes"
means that the values are gloo's, to {TOLERANCE:g}.

Written by `{COMMAND}`; the tests fail where it is not up to date.
"""


@dataclass(frozen=True)
class Row:
    """One feature: empty where it works, else why not."""

    feature: str
    gloo: str
    native: str
    python: str

    def cells(self) -> tuple[str, str, str, str]:
        """The row as the table has it."""
        gloo, native, python = ("no" if reason else "yes" for reason in (self.gloo, self.native, self.python))
        return self.feature, gloo, native, python


def features(program: str) -> list[str]:
    """The features that a program checks."""
    return re.findall(r'^@check\("(.+)"\)$', (PROGRAMS / f"{program}.py").read_text(), re.MULTILINE)


def rows(program: str) -> list[Row]:
    """Run the program thrice."""
    script = PROGRAMS / f"{program}.py"
    real, native, python = _under_gloo(script), _under_prism(script, "native"), _under_prism(script, "python")
    found = []
    for feature in features(program):
        gloo, *others = (_answers(feature, output) for output in (real, native, python))
        reason = _failure(gloo)
        found.append(Row(feature, reason, *(_failure(answers, None if reason else gloo) for answers in others)))
    return found


def committed() -> list[tuple[str, ...]]:
    """The cells of docs/conformance.md."""
    lines = TABLE.read_text().splitlines() if TABLE.exists() else []
    table = [line for line in lines if line.startswith("| ")]
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in table[1:]]


def text(found: Sequence[Row]) -> str:
    """The document."""
    lines = [_HEAD, f"torch {torch.__version__}, {len(found)} features.", ""]
    lines += ["| feature | gloo | PRISM (C++) | PRISM (Python) |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(row.cells())} |" for row in found]
    lines += ["", "## Why not", ""]
    for row in found:
        reasons: dict[str, list[str]] = {}
        for who, reason in (("gloo", row.gloo), ("C++", row.native), ("Python", row.python)):
            reasons.setdefault(reason, []).append(who)
        lines += [f"- {row.feature} ({', '.join(who)}): `{reason}`" for reason, who in reasons.items() if reason]
    return "\n".join(lines) + "\n"


def _under_gloo(script: Path) -> list[str]:
    try:
        return run_gloo(script, [], WORLD, timeout=600)
    except RuntimeError:  # it has crashed or hangs, and then nobody answers
        return [""] * WORLD


def _under_prism(script: Path, face: str) -> list[str]:
    program = Program(script=str(script), env={"PRISM_PROCESS_GROUP": face})
    with tempfile.TemporaryDirectory(prefix="conformance-") as directory:
        return capture(scenario(script, world=WORLD, program=program), Path(directory) / "out").output


def _answers(feature: str, output: Sequence[str]) -> list[str]:
    """What each rank printed for the feature."""
    mark = f"CHECK {feature} "
    printed = [[line.removeprefix(mark) for line in log.splitlines() if line.startswith(mark)] for log in output]
    return [lines[0] if lines else "FAIL no answer" for lines in printed]


def _failure(answers: Sequence[str], expected: Sequence[str] | None = None) -> str:
    """Why it does not work, empty if it does; `expected` are gloo's answers."""
    for answer in answers:
        if answer.startswith("FAIL "):
            return answer.removeprefix("FAIL ")
    for answer, other in zip(answers, expected or answers, strict=True):
        if not _same(json.loads(answer.removeprefix("ok ")), json.loads(other.removeprefix("ok "))):
            return "the values are not gloo's"
    return ""


def _same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other


if __name__ == "__main__":
    TABLE.write_text(text([row for program in (*FAST, *SLOW) for row in rows(program)]))
