"""What a newcomer reads in the first hour is true: README, tutorial and the page about tests are executed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documents import Step, plain, steps

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", ["README.md", "docs/tutorial.md", "docs/testing.md"])
def test_it_does_what_it_says(name: str, tmp_path: Path) -> None:
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    taken = steps(ROOT / name)
    assert taken, f"nothing of {name} is executed"
    for step in taken:
        step.take(tmp_path)


def test_the_command_that_is_shown_is_the_one_that_is_run(tmp_path: Path) -> None:
    Step("run", "python -c 'print(1)'", "$ .venv/bin/python -c 'print(1)'\n2\n").take(tmp_path)
    with pytest.raises(AssertionError, match="another command is run"):
        Step("run", "python -c 'print(1)'", "$ python -c 'print(3)'\n").take(tmp_path)


def test_numbers_are_not_compared_but_words_are() -> None:
    assert plain("  iteration  13.1 ms (median of 4)") == plain("  iteration  1.2 s (median of 3)")
    assert plain("1 passed in 4.20s") == plain("1 passed in 97.59s (0:01:37)")
    assert plain("oom: rank 3") != plain("hang: rank 3")
