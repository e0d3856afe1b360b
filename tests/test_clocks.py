"""Clocks: PRISM asks only those that nobody sets, so that one that jumps ends no wait and makes no time up."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SET_BY_PEOPLE = re.compile(
    r"time\.time(_ns)?\(|datetime\.(now|utcnow|today)\(|CLOCK_REALTIME|system_clock|gettimeofday"
)
KINDS = {".py", ".cpp", ".h"}
ALLOWED = {"prism/gpu/processes/stage_files.py"}
"""Compares with the times of files, which are by that clock."""


def test_nothing_is_measured_by_a_clock_that_people_set() -> None:
    sources = [path for folder in ("prism", "ext") for path in (ROOT / folder).rglob("*") if path.suffix in KINDS]
    assert len(sources) > 200
    found = {str(path.relative_to(ROOT)) for path in sources if SET_BY_PEOPLE.search(path.read_text())}
    assert found <= ALLOWED
