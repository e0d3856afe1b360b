"""The table of benchmarks.two_gpus: what was found of each job, really, predicted and emulated.

    python -m benchmarks.two_gpus_table FILE     what a call that was cut off has left

`paced`: predicted with paced answers. `together`: emulated with the virtual rank on the sandbox rank's GPU; `emulated`:
on the other one.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

WARM_UPS = 3
PEAK_WITHIN = 1e-4
SIDES = ("predicted", "paced", "emulated", "together")


def show(found: dict[str, Any]) -> None:
    """Print it, and what else was measured."""
    print(f"\n{'job':<12}{'real':>10}{'spread':>8}" + "".join(f"{side:>12}{'error':>9}" for side in SIDES))
    errors: dict[str, list[float]] = {side: [] for side in SIDES}
    for job in dict.fromkeys(job for part in ("captured", "real") for job in found.get(part, {})):
        row = row_of(found, job)
        cells = f"{job:<12}{_ms(row['real']):>10}{_percent(row['spread']):>8}"
        for side, known in errors.items():
            cells += f"{_ms(row[side]):>12}{_percent(row[side + '_error'], '+'):>9}"
            known += [] if row[side + "_error"] is None else [abs(row[side + "_error"])]
        print("\n    ".join([cells, *row["told"]]))
    for side, known in errors.items():
        if known:
            print(f"{side}: mean error {statistics.mean(known):.2%}, worst {max(known):.2%}")
    _show_engine({name: rows[-1] for name, rows in found.get("engine", {}).items()})
    for job, runs in found.get("kernels", {}).items():
        print(f"kernels of {job}: {runs[-1]}")
    for row in found.get("passing", {}).get("all", [[]])[-1]:
        ratios = f"{row['stream']['ratio']:.4f} of the stream's time, {row['host']['ratio']:.4f} of the host's"
        print(f"NCCL through the functions in front of it, {row['bytes']} B: {ratios}")


def row_of(found: dict[str, Any], job: str) -> dict[str, Any]:
    """Medians in ms, errors as fractions of the real ones; `told`: what is said of runs, memory and losses."""
    real = [run for run in found.get("real", {}).get(job, []) if run]
    medians = [statistics.median(run[0]["ms"][WARM_UPS:]) for run in real]
    middle = statistics.median(medians) if medians else None
    row: dict[str, Any] = {"real": middle, "spread": (max(medians) - min(medians)) / middle if middle else None}
    told = [_runs("real", medians)]
    for side in SIDES:
        times = [time for run in found.get(side, {}).get(job, []) if (time := _iteration(side, run))]
        row[side] = statistics.median(times) if times else None
        row[f"{side}_error"] = row[side] / middle - 1 if middle and times else None
        told.append(_runs(side, times))
    known = [*real, *filter(None, found.get("unheld", {}).get(job, []))]
    row["told"] = [*filter(None, told), *_memory(found, known, job), *_losses(found, real, job)]
    return row


def _runs(side: str, times: Sequence[float]) -> str:
    return f"{side}: {', '.join(f'{time:.2f}' for time in times)} ms" if times else ""


def _iteration(side: str, run: dict[str, Any]) -> float:
    """The median iteration in ms; 0: none."""
    if side in ("predicted", "paced"):
        return (run.get("iteration_ns_median") or 0) / 1e6
    emulation = run.get("emulation")
    times = emulation["ranks"][0]["iteration_ns"] if emulation else []
    return statistics.median(times) / 1e6 if times else 0.0


def _told(found: dict[str, Any], job: str, parts: Sequence[str]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """What ranks of PRISM printed: of which part, which rank, and the line."""
    for part in parts:
        for run in found.get(part, {}).get(job, []):
            for name, lines in run["reports"].items():
                if (name == "0.emulate") != (part in ("captured", "predicted")):
                    yield from ((part, int(name[0]), line) for line in lines)


def _memory(found: dict[str, Any], real: Sequence[Any], job: str) -> list[str]:
    """Whether each peak is that of a real run, within so much."""
    said: dict[str, None] = {}
    for key in ("max_allocated", "max_reserved"):
        known = [sorted({run[rank][key] for run in real if len(run) > rank and key in run[rank]}) for rank in (0, 1)]
        for part, rank, line in _told(found, job, ("captured", "emulated", "together", "exact")):
            apart = [abs(line[key] - one) / one for one in known[rank] if key in line]
            if apart and min(apart) > PEAK_WITHIN:
                said[f"{key} of rank {rank}: {part} {line[key]}, really {known[rank]}"] = None
    return list(said) or (["peaks: all among the real ones"] if real and "max_allocated" in real[0][0] else [])


def _losses(found: dict[str, Any], real: Sequence[Any], job: str) -> list[str]:
    """How far the losses are apart, among real runs and from them."""
    apart: dict[str, float] = {}
    for run in real[1:]:
        apart["real runs"] = max(apart.get("real runs", 0.0), *(map(_apart, run, real[0])))
    fed = [run["emulation"] for run in found.get("emulated", {}).get(job, []) if run.get("emulation")]
    as_captured = bool(fed) and all(emulation["contribution"] == "exact" for emulation in fed)
    for part, rank, line in _told(found, job, ("captured", "exact", *(["emulated"] if as_captured else []))):
        others = [_apart(line, run[rank]) for run in real if len(run) > rank]
        if others:
            apart[part] = max(apart.get(part, 0.0), min(others))
    return [f"losses, the farthest of an iteration: {', '.join(f'{what} {far:.1e}' for what, far in apart.items())}"]


def _apart(one: dict[str, Any], other: dict[str, Any]) -> float:
    pairs = zip(one["loss"], other["loss"], strict=False)
    return max((abs(a - b) / max(abs(b), 1e-30) for a, b in pairs), default=0.0)


def _show_engine(rows: dict[str, dict[str, float]]) -> None:
    """Bandwidths as what a member sends over the time; for two members that is the input's bytes."""
    if "nccl" in rows:
        print(f"{'bytes':>12}" + "".join(f"{name + ' us':>15}{'GB/s':>8}" for name in rows))
        for size in rows["nccl"]:
            cells = "".join(f"{row[size]:>15.1f}{int(size) / row[size] / 1e3:>8.1f}" for row in rows.values())
            print(f"{size:>12}{cells}")


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} ms"


def _percent(value: float | None, sign: str = "") -> str:
    return "-" if value is None else f"{value:{sign}.2%}"


if __name__ == "__main__":
    show(json.loads(Path(sys.argv[1]).read_text()))
