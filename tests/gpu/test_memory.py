"""The memory meter counts what tensors hold; its allocator lives in a child, so that pytest's own stays untouched."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from prism.errors import RunError
from prism.gpu.meter.memory import MemoryMeter

PROGRAM = Path(__file__).with_name("metered_program.py")


@pytest.fixture(scope="module")
def metered() -> dict[str, Any]:
    """What the program counted: per case a list of [current, peak, current_rounded, peak_rounded]."""
    pytest.importorskip("prism.gpu._allocator", reason="the allocator extension is not built")
    done = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    counted: dict[str, Any] = json.loads(done.stdout)
    return counted


def test_blocks_from_before_the_meter_are_never_counted(metered: dict[str, Any]) -> None:
    assert metered["reason"] is None
    assert metered["older"] == [[0, 0, 0, 0]]


def test_peak_is_the_most_that_was_held_at_once(metered: dict[str, Any]) -> None:
    both, after, _, end = metered["sequence"]
    assert both[:2] == [4003, 4003]
    assert after[:2] == [403, 4003]
    assert end[:2] == [0, 403]


def test_each_block_is_rounded_up_to_512_bytes(metered: dict[str, Any]) -> None:
    both, after, _, _ = metered["sequence"]
    assert both[2:] == [4096 + 512, 4096 + 512]
    assert after[2:] == [512 + 512, 4096 + 512]


def test_reset_peak_starts_from_what_is_held(metered: dict[str, Any]) -> None:
    _, _, reset, _ = metered["sequence"]
    assert reset == [403, 403, 1024, 1024]


def test_threads_share_one_count_and_free_each_others_blocks(metered: dict[str, Any]) -> None:
    held, end = metered["threads"]
    assert held == [4 * 256, 4 * 1024, 4 * 512, 4 * 1024]
    assert end == [0, 4 * 1024, 0, 4 * 1024]


def test_a_lap_is_the_most_since_the_one_before(metered: dict[str, Any]) -> None:
    assert metered["laps"] == [3072, 1024, 1536, 1024, 0]


def test_what_would_cross_the_limit_is_refused_and_not_counted(metered: dict[str, Any]) -> None:
    end = "The device has a total capacity of 2.00 KiB of which 1.00 KiB is free and 1.00 KiB is in use."
    assert metered["refused"] == [
        f"out of memory. Tried to allocate 1.00 KiB. {end}",
        f"out of memory. Tried to allocate 4194304.00 TiB. {end}",
    ]


def test_blocks_of_prism_are_neither_counted_nor_discounted(metered: dict[str, Any]) -> None:
    assert metered["own"] == [[1, 1, 512, 512], [0, 1, 0, 512]]


def test_a_limit_that_nothing_enforces_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("prism.gpu._allocator", raising=False)
    monkeypatch.setitem(sys.modules, "prism.gpu._allocator", None)
    with pytest.raises(RunError, match=r"devices\.memory cannot be enforced: peak memory is not metered"):
        MemoryMeter().limit(1024)


def test_without_the_extension_there_is_a_reason_and_no_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("prism.gpu._allocator", raising=False)
    monkeypatch.setitem(sys.modules, "prism.gpu._allocator", None)
    meter = MemoryMeter()
    assert meter.stats() is None
    assert meter.peak_bytes is None
    assert meter.reason is not None
    assert "pip install --no-build-isolation" in meter.reason
    assert "\n" not in meter.reason
