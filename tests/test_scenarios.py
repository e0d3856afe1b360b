"""The scenarios that come with PRISM are what this version reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from prism.scenario import Scenario

SCENARIOS = sorted(
    path for path in (Path(__file__).parents[1] / "scenarios").glob("*.yaml") if "expected" not in path.name
)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_it_is_valid_and_bears_the_name_of_its_file(path: Path) -> None:
    assert Scenario.load(path).name == path.stem
