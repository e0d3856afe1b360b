"""The table of benchmarks.gpu_switch: what is divided by what."""

from __future__ import annotations

from typing import Any

from benchmarks.switch_table import table


def moved(ms: float, **calls: tuple[int, float]) -> dict[str, Any]:
    """One process's part in a switch."""
    return {"ns": int(ms * 1e6), "calls": calls}


def build(seconds: float, gb_per_s: float) -> dict[str, Any]:
    """What one library came to."""
    turn = {"s": seconds, "out": moved(100, unmap=(40, 30.0), release=(116, 20.0)), "back": moved(90, wait=(1, 85.0))}
    return {
        "bytes": 4 << 30, "out_s": 0.1, "back_s": 0.1, "full_s": 0.15, "duplex_s": seconds, "gb_per_s": gb_per_s,
        "duplex": turn,
    }  # fmt: skip


FOUND: dict[str, Any] = {
    "switch": {"duplex_s": 0.1, "builds": {"built": build(0.1, 80.0), "broken": {"error": "out of memory"}}},
    "small_pages": {"builds": {"built": build(0.2, 40.0)}},
    "checkpoint": {"out_s": [3.0, 2.5], "back_s": [1.0, 1.5]},
}
PIECES: dict[str, Any] = {
    "copies": {"whole": {"gb_per_s": 100.0}, "huge": {"gb_per_s": 90.0}},
    "copies_beside_calls": {"gb_per_s": 70.0},
    "calls": moved(1, create=(10, 2.0)),
    "calls_of_two": [moved(1, create=(10, 4.0)), moved(1)],
}


def test_a_switch_is_measured_by_copies_of_the_same_call_and_by_the_fastest_checkpoint() -> None:
    lines = table({**FOUND, "pieces": PIECES}).splitlines()
    assert "copies of two processes, host memory huge: 90.0 GB/s" in lines
    assert "us a call, alone: create 200; of two: create 400" in lines
    assert [line.rpartition("; ")[2] for line in lines if "GiB out" in line] == ["80.0% of PCIe", "40.0% of PCIe"]
    assert "broken: out of memory" in lines
    assert lines[-1] == "driver's checkpoint: out 2.50 s, back 1.00 s; 35.0 x"


def test_the_rate_of_its_own_part_counts_first() -> None:
    wire = {"two": 160.0, "both": 150.0}
    assert "; 50.0% of PCIe" in table({**FOUND, "rate": wire, "pieces": PIECES})
    assert "of PCIe" not in table(FOUND), "a rate that was not measured is not assumed"


def test_the_calls_of_a_move_and_what_they_leave_are_the_move() -> None:
    assert "    out 100.0 ms: unmap 30.0 (40), release 20.0 (116); else 50.0" in table(FOUND).splitlines()
