"""The table of benchmarks.gpu_switch: what is divided by what."""

from __future__ import annotations

from typing import Any

from benchmarks.switch_table import table


def moved(ms: float, **calls: tuple[int, float]) -> dict[str, Any]:
    """One process's part in a switch, of 4 GiB; its copies end with it, and starve for a fifth of the time."""
    ns = int(ms * 1e6)
    return {"ns": ns, "bytes": 4 << 30, "copying": ns - 2_000_000, "starved": ns // 5, "calls": calls}


def build(seconds: float, gb_per_s: float) -> dict[str, Any]:
    """What one library came to."""
    back = moved(90, map=(116, 0.3), open=(58, 70.0), wait=(1, 15.0))
    back |= {"handles_when_left": 84, "opening_when_left_ms": 68.5}
    turn = {"s": seconds, "out": moved(100, unmap=(40, 30.0), release=(116, 20.0)), "back": back}
    return {
        "bytes": 4 << 30, "out_s": 0.1, "back_s": 0.1, "full_s": 0.15, "duplex_s": seconds, "gb_per_s": gb_per_s,
        "duplex": turn, "full": turn,
    }  # fmt: skip


FOUND: dict[str, Any] = {
    "switch": {"duplex_s": 0.1, "builds": {"built": build(0.1, 80.0), "broken": {"error": "out of memory"}}},
    "small_pages": {"builds": {"built": build(0.2, 40.0)}},
    "checkpoint": {"out_s": [3.0, 2.5], "back_s": [1.0, 1.5]},
}
PIECES: dict[str, Any] = {
    "copies": {
        "whole": {"gb_per_s": 100.0, "ways": {}},
        "huge": {"gb_per_s": 90.0, "ways": {"out": 52.0, "back": 45.0}},
    },
    "copies_beside_calls": {"gb_per_s": 70.0},
    "calls": moved(1, create=(10, 2.0)),
    "calls_of_two": [moved(1, create=(10, 4.0)), moved(1)],
}


def test_a_switch_is_measured_by_copies_of_the_same_call_and_by_the_fastest_checkpoint() -> None:
    lines = table({**FOUND, "pieces": PIECES}).splitlines()
    assert "copies of two processes, host memory huge: 90.0 GB/s (out 52.0, back 45.0)" in lines
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


def test_copies_of_a_move_are_told_by_the_device() -> None:
    lines = table(FOUND).splitlines()
    left = "    the other had left at handle 84 of 116, after 68.5 of 70.0 ms of opening"
    at = lines.index(left)
    assert lines[at - 1] == "        first copy to last, on the device: 88.0 ms, starved 18.0, else 61.4 GB/s"
    assert lines.count(left) == 4, "where there is room and on a full device, of two builds"


def test_a_build_that_does_not_tell_of_the_device_is_told_without() -> None:
    silent = build(0.1, 80.0)
    for turn in (silent["duplex"], silent["full"]):
        turn["out"] |= {"copying": 0, "starved": 0}
        turn["back"] |= {"copying": 0, "starved": 0}
    lines = table({"switch": {"builds": {"old": silent}}}).splitlines()
    assert not [line for line in lines if "on the device" in line]
    assert "    out 100.0 ms: unmap 30.0 (40), release 20.0 (116); else 50.0" in lines
