"""The table of benchmarks.two_gpus: what was found of each job, really, predicted and emulated.

`together`: emulated with the virtual rank on the sandbox rank's GPU; `emulated`: on the other one.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

WARM_UPS = 2
PEAK_WITHIN = 1e-4


def show(found: dict[str, Any]) -> None:
    """Print it, and what else was measured."""
    heads = f"{'predicted':>11}{'error':>9}{'together':>10}{'error':>9}{'emulated':>10}{'error':>9}"
    print(f"\n{'job':<12}{'real':>10}{'spread':>8}{heads}  memory, losses")
    errors: dict[str, list[float]] = {"predicted": [], "together": [], "emulated": []}
    for job in dict.fromkeys([*found.get("real", {}), *found.get("prism", {})]):
        row = row_of(found["real"].get(job, []) if "real" in found else [], found.get("prism", {}).get(job, []))
        cells = f"{job:<12}{_ms(row['real']):>10}{_percent(row['spread']):>8}"
        for name, known in errors.items():
            cells += f"{_ms(row[name]):>{11 if name == 'predicted' else 10}}{_percent(row[name + '_error'], '+'):>9}"
            known += [] if row[name + "_error"] is None else [abs(row[name + "_error"])]
        print(f"{cells}  {'; '.join(row['told'])}")
    for name, known in errors.items():
        if known:
            print(f"{name}: mean error {statistics.mean(known):.2%}, worst {max(known):.2%}")
    _show_engine(found.get("engine", {}).get("all", []))
    for job, runs in found.get("kernels", {}).items():
        print(f"kernels of {job}: {runs[-1]}")
    for rows in found.get("passing", {}).get("all", [])[-1:]:
        for row in rows:
            ratios = f"{row['stream']['ratio']:.4f} of the stream's time, {row['host']['ratio']:.4f} of the host's"
            print(f"NCCL through the functions in front of it, {row['bytes']} B: {ratios}")


def row_of(real: Sequence[Any], prism: Sequence[Any]) -> dict[str, Any]:
    """Medians in ms, errors as fractions of the real ones; `told`: what is said of memory, losses and failures."""
    medians = [statistics.median(run[0]["ms"][WARM_UPS:]) for run in real if run]
    middle = statistics.median(medians) if medians else None
    row: dict[str, Any] = {
        "real": middle,
        "spread": (max(medians) - min(medians)) / middle if middle else None,
        "predicted": _middle([(run["result"].get("iteration_ns_median") or 0) / 1e6 for run in prism]),
        "together": _middle([_emulated(run["result"]) for run in prism]),
        "emulated": _middle([_emulated(run["beside"]) for run in prism]),
    }
    for name in ("predicted", "together", "emulated"):
        row[f"{name}_error"] = row[name] / middle - 1 if middle and row[name] else None
    row["told"] = [
        *_memory(real, prism),
        *_losses(real, prism),
        *(run["failed"][-200:] for run in prism if run["failed"]),
    ]
    return row


def _emulated(result: dict[str, Any]) -> float:
    emulation = result.get("emulation")
    times = emulation["ranks"][0]["iteration_ns"] if emulation else []
    return statistics.median(times) / 1e6 if times else 0.0


def _middle(values: Sequence[float]) -> float | None:
    known = [value for value in values if value]
    return statistics.median(known) if known else None


def _memory(real: Sequence[Any], prism: Sequence[Any]) -> list[str]:
    """Whether each peak is that of a real run, within so much."""
    said = []
    for key in ("max_allocated", "max_reserved"):
        for name, rank in (("0", 0), ("1", 1), ("emulated", 0)):
            known = sorted({run[rank][key] for run in real if len(run) > rank and key in run[rank]})
            reports = [one[key] for run in prism for one in run["reports"].get(name, []) if key in one]
            apart = [min((abs(report - one) / one for one in known), default=0.0) for report in reports]
            if known and reports and max(apart) > PEAK_WITHIN:
                said.append(f"{key} of {name}: {reports} really {known}")
            elif known and not reports:
                said.append(f"{key} of {name}: not told")
    return said or ["peaks in"]


def _losses(real: Sequence[Any], prism: Sequence[Any]) -> list[str]:
    """Whether the losses are the same numbers."""
    said = []
    for name, rank in (("0", 0), ("1", 1), ("emulated", 0)):
        theirs = [run[rank]["loss"] for run in real if len(run) > rank]
        fed = [run for run in prism if name != "emulated" or run["contribution"] != "zeros"]
        ours = [one["loss"] for run in fed for one in run["reports"].get(name, [])]
        pairs = [pair for one in ours for other in theirs for pair in zip(one, other, strict=False)]
        apart = max((abs(a - b) / max(abs(b), 1e-30) for a, b in pairs), default=0.0)
        if apart:
            said.append(f"losses of {name} up to {apart:.1e} apart")
    return said or ["losses same"]


def _show_engine(runs: Sequence[Any]) -> None:
    """Bandwidths as what a member sends over the time; for two members that is the input's bytes."""
    for rows in runs[-1:]:
        print(f"{'bytes':>12}" + "".join(f"{name + ' us':>15}{'GB/s':>8}" for name in rows))
        for size in rows["nccl"]:
            cells = "".join(f"{row[size]:>15.1f}{int(size) / row[size] / 1e3:>8.1f}" for row in rows.values())
            print(f"{size:>12}{cells}")


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} ms"


def _percent(value: float | None, sign: str = "") -> str:
    return "-" if value is None else f"{value:{sign}.2%}"
