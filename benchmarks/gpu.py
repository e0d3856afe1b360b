"""Captures and predictions on one GPU against real runs of the same jobs on it.

    python -m benchmarks.gpu [--jobs ddp,tp] [--worlds 2,4,8] [--runs 5] [--iterations 8] [--at-once 1] [--limit 120]
                             [--json FILE] [SECTION...]

Sections, all if none is named. `peaks`: losses and peaks of memory of every rank, captured, against those of real runs:
NCCL with as many processes on the one GPU, each with a host id of its own (times of such a run mean nothing). `cap`:
under a cap on memory, the ranks that run out of it. `iteration`: predicted iterations at two ranks against those of two
GPUs joined by NVLink. `segments`: the predicted iteration of one rank alone against a plain run of it.

`--at-once`: how many runs share the GPU at a time; `iteration` and `segments` have it to themselves. Each run has
`--limit` seconds; one that takes longer is told as failed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

JOBS = Path(__file__).parents[1] / "tests" / "jobs"
CAPPED = Path(__file__).parent / "programs" / "capped.py"
TABLE = Path(__file__).parent / "h200-nvlink.csv"
REAL_MS = {"ddp": (47.9, 49.4), "tp": (33.6, 33.8)}
"""Medians of real runs on two H200s joined by NVLink; TABLE has the times of their links."""
CAPS = {"pp": 2200 << 20}
"""Bytes at which some ranks of a job run out of memory and others would not."""


class Run(NamedTuple):
    """What ranks told, by rank: REF lines; and who ran out of memory."""

    reports: dict[int, dict[str, Any]]
    oom: list[int]
    failed: str = ""


def real(job: str, world: int, iterations: int, limit: float, cap: int = 0) -> Run:
    """One run under NCCL, all ranks on the one GPU."""
    program = f"{CAPPED} {cap} {JOBS}/job_{job}.py" if cap else f"{JOBS}/job_{job}.py"
    with tempfile.TemporaryDirectory() as logs:
        apart = "NCCL_HOSTID=h$LOCAL_RANK NCCL_IB_DISABLE=1 NCCL_SOCKET_IFNAME=lo" if world > 1 else "true"
        rank = f"export {apart}; exec {sys.executable} {program} {iterations} > {logs}/$RANK.log 2>&1"
        command = [
            sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(world),
            "--no-python", "sh", "-c", rank,
        ]  # fmt: skip
        failed = _run(command, limit)
        return _read(Path(logs), world, failed)


def captured(job: str, world: int, iterations: int, limit: float, cap: int = 0) -> Run:
    """One capture of the same."""
    with tempfile.TemporaryDirectory() as out:
        capacity = f"devices: {{kind: cuda, memory: {cap}B}}" if cap else "devices: {kind: cuda}"
        failed, result = _prism(job, world, iterations, limit, out, f"{capacity}\nstages: [capture]\n")
        run = _read(Path(out) / "run" / "ranks", world, failed)
        for rank in result.get("ranks", []):  # what is measured from outside has to be what the rank sees
            report = run.reports.get(rank["rank"])
            if report is not None:
                report["told"] = [rank["peak_bytes"], rank["reserved_bytes"]]
        return run


def predicted(job: str, world: int, iterations: int, limit: float, network: str) -> tuple[str, dict[str, Any]]:
    """The result of a capture, a calibration and a replay."""
    with tempfile.TemporaryDirectory() as out:
        more = f"devices: {{kind: cuda}}\ncapture: {{payloads: control}}\nnetwork: {network}\n"
        return _prism(job, world, iterations, limit, out, more)


def _prism(job: str, world: int, iterations: int, limit: float, out: str, more: str) -> tuple[str, dict[str, Any]]:
    script = f"program: {{script: {JOBS}/job_{job}.py, args: ['{iterations}']}}"
    scenario = Path(out) / "scenario.yaml"
    scenario.write_text(f"prism: 1\nname: {job}\n{script}\nworld: {{size: {world}}}\n{more}")
    failed = _run([sys.executable, "-m", "prism.coordinator", str(scenario), "--out", f"{out}/run", "-q"], limit)
    result = Path(out) / "run" / "result.json"
    return failed, json.loads(result.read_text()) if result.is_file() else {}


def _run(command: Sequence[str], limit: float) -> str:
    """Why a command failed; "" if it did not."""
    try:
        done = subprocess.run(command, timeout=limit, capture_output=True, text=True, check=False)
    except subprocess.TimeoutExpired:
        return f"took more than {limit:.0f} s"
    return "" if done.returncode == 0 else f"exit {done.returncode}: {done.stderr[-300:]}"


def _read(logs: Path, world: int, failed: str) -> Run:
    reports, oom = {}, []
    for rank in range(world):
        log = logs / f"{rank}.log"
        text = log.read_text() if log.is_file() else ""
        lines = [line for line in text.splitlines() if line.startswith("REF ")]
        if lines:
            reports[rank] = json.loads(lines[-1].removeprefix("REF "))
        if "OutOfMemoryError" in text:
            oom.append(rank)
    return Run(reports, oom, failed)


class Bench:
    """The sections, by the options; `found` is what goes into the JSON file."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self.found: dict[str, Any] = {}

    def peaks(self) -> None:
        """Each rank's peaks and losses, and whether they are among those of the real runs."""
        options = self._options
        cases = [(job, world) for world in options.worlds for job in options.jobs if (job, world) != ("pp", 8)]
        calls: list[Callable[[], Run]] = []
        for job, world in cases:
            given = (job, world, options.iterations, options.limit)
            calls += [lambda given=given: captured(*given)]
            calls += [lambda given=given: real(*given) for _ in range(options.runs)]
        with ThreadPoolExecutor(options.at_once) as pool:
            runs = list(pool.map(lambda call: call(), calls))
        heads = f"{'allocated':>16}{'reserved':>16}{'loss apart':>12}  real allocated; reserved"
        print(f"{'job':6}{'world':>6}{'rank':>5}{heads}", flush=True)
        for number, case in enumerate(cases):
            first = number * (options.runs + 1)
            self._told("peaks", list(_peak_rows(*case, runs[first], runs[first + 1 : first + 1 + options.runs])))

    def cap(self) -> None:
        """Who runs out of memory under a cap."""
        rows = []
        for job, cap in CAPS.items():
            given = (job, 2, self._options.iterations, self._options.limit, cap)
            ours, theirs = captured(*given), real(*given)
            same = "same" if ours.oom == theirs.oom else "DIFFER"
            print(f"{job} under {cap >> 20} MiB: ranks {ours.oom} run out, really {theirs.oom}: {same}")
            print(f"    captured: {ours.failed[-160:]!r}; real: {theirs.failed[-160:]!r}")
            rows.append({"job": job, "cap": cap, "captured": ours.oom, "real": theirs.oom, "failed": theirs.failed})
        self._told("cap", rows)

    def iteration(self) -> None:
        """Predicted iterations against real ones of two GPUs."""
        rows = []
        for job, (low, high) in self._timed():
            network = f"{{model: measured, table: {TABLE}}}"
            failed, result = predicted(job, 2, self._options.iterations, self._options.limit, network)
            ms = (result.get("iteration_ns_median") or 0) / 1e6
            print(f"{job}: predicted {ms:.2f} ms, real {low} to {high} ms {failed}")
            clocks = (result.get("calibration") or {}).get("clocks")
            rows.append({"job": job, "predicted_ms": ms, "real_ms": [low, high], "clocks": clocks, "failed": failed})
        self._told("iteration", rows)

    def segments(self) -> None:
        """One rank alone: predicted from its segments, and plain."""
        rows = []
        for job, _ in self._timed():
            given = (job, 1, self._options.iterations, self._options.limit)
            plain = real(*given)
            failed, result = predicted(*given, "{model: none}")
            again = real(*given)
            ms = (result.get("iteration_ns_median") or 0) / 1e6
            medians = [statistics.median(run.reports[0]["ms"][2:]) for run in (plain, again) if run.reports]
            print(f"{job} alone: predicted {ms:.2f} ms, plain {', '.join(f'{one:.2f}' for one in medians)} ms {failed}")
            rows.append({"job": job, "predicted_ms": ms, "plain_ms": medians, "failed": failed})
        self._told("segments", rows)

    def _timed(self) -> list[tuple[str, tuple[float, float]]]:
        """The jobs whose times are known, of those that are asked for."""
        return [(job, span) for job, span in REAL_MS.items() if job in self._options.jobs]

    def _told(self, section: str, rows: list[dict[str, Any]]) -> None:
        self.found.setdefault(section, []).extend(rows)
        if self._options.json:
            self._options.json.write_text(json.dumps(self.found, indent=1))


def _peak_rows(job: str, world: int, ours: Run, theirs: Sequence[Run]) -> Iterable[dict[str, Any]]:
    for run in (ours, *theirs):
        if run.failed:
            print(f"{job:6}{world:6} failed: {run.failed[:200]}")
    for rank in sorted(ours.reports):
        report = ours.reports[rank]
        others = [run.reports[rank] for run in theirs if rank in run.reports]
        row: dict[str, Any] = {"job": job, "world": world, "rank": rank, "told": report.get("told")}
        cells = ""
        for key in ("max_allocated", "max_reserved"):
            known = sorted({one[key] for one in others})
            near = any(abs(report[key] - one) <= 1e-4 * one for one in known)
            row[key], row[f"real_{key}"], row[f"{key}_in"] = report[key], known, near
            cells += f"{report[key]:>13}{' in' if near else ' --'}"
        pairs = [pair for one in others for pair in zip(report["loss"], one["loss"], strict=False)]
        row["loss_apart"] = max((abs(a - b) / abs(b) for a, b in pairs), default=None)
        apart = "-" if row["loss_apart"] is None else f"{row['loss_apart']:.1e}"
        print(f"{job:6}{world:6}{rank:5}{cells}{apart:>12}  {row['real_max_allocated']}; {row['real_max_reserved']}")
        yield row


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help="peaks, cap, iteration, segments")
    parser.add_argument("--jobs", type=lambda text: text.split(","), default=["ddp", "fsdp2", "tp", "pp", "moe"])
    parser.add_argument("--worlds", type=lambda text: [int(one) for one in text.split(",")], default=[2, 4, 8])
    parser.add_argument("--runs", type=int, default=5, help="real runs of each case")
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds that a run may take")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    bench = Bench(options)
    for section in options.sections or ["peaks", "cap", "iteration", "segments"]:
        getattr(bench, section)()


if __name__ == "__main__":
    main()
