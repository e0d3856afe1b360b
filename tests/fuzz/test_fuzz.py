"""Half a minute of fuzzing, from the same seeds and by the same chance each time; `python -m tests.fuzz` does more."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("atheris", reason="atheris is not made for this interpreter or machine")
from tests.fuzz.__main__ import fuzz
from tests.fuzz.seeds import TARGETS

SECONDS = 10


def test_nothing_is_found_in_what_strangers_can_hand_in(tmp_path: Path) -> None:
    with ThreadPoolExecutor(len(TARGETS)) as pool:
        for code, told in pool.map(lambda target: fuzz(target, SECONDS, 1, tmp_path), TARGETS):
            assert code == 0, told
            assert "stat::number_of_executed_units" in told


def test_a_target_that_breaks_its_promise_is_found_out(tmp_path: Path) -> None:
    code, told = fuzz("planted", SECONDS, 1, tmp_path)
    assert code != 0
    assert "planted" in told
    assert [path.read_bytes()[:1] for path in tmp_path.iterdir()] == [b"P"]
