"""Captures and predictions on one GPU against real runs of the same jobs on it.

    python -m benchmarks.gpu [--cases moe:8:1,ddp:2] [--jobs ddp,tp] [--iterations 8] [--at-once 1] [--limit 120]
                             [--for 300] [--json FILE] [--keep FOLDER] [SECTION...]

Sections, all if none is named. `peaks`: losses and peaks of memory of every rank, captured, against those of real runs:
NCCL with as many processes on the one GPU, each with a host id of its own (times of such a run mean nothing). `cap`:
under a cap on memory, the ranks that run out of it. `iteration`: predicted iterations at two ranks against those of two
GPUs joined by NVLink. `segments`: the calibrated segments of one rank alone, from post to post, against those of plain
runs of it, and plain runs against each other; and how long NCCL's posts hold the host.

`peaks` is of `--cases`, JOB:WORLD[:RUNS], with five real runs or so many: in their order one capture and one real run
of each, then the other real runs in rounds. `--at-once`: how many of them share the GPU at a time, `--for`: seconds
after which it ends whatever is left. Each run has `--limit` seconds; one that takes longer is told as failed.
`iteration` and `segments` are of those `--jobs` whose times are known. benchmarks.gpu_switch, gpu_pressure and gpu_many
have the other figures.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.gpu_peaks import HEAD, Case, rows, table
from benchmarks.gpu_runs import JOBS, Run, Runs, result, scenario
from benchmarks.segments import calibrated, compared
from prism import trace

TABLE = Path(__file__).parent / "h200-nvlink.csv"
REAL_MS = {"ddp": (47.9, 49.4), "tp": (33.6, 33.8)}
"""Medians of earlier real runs on two H200s joined by NVLink; TABLE has the times of their links."""
CASES = [Case(job, world) for world in (2, 4, 8) for job in ("ddp", "fsdp2", "tp", "pp", "moe")]
WARM_UPS = 2
"""Iterations of a plain run, from its first mark on, that do not count."""
LEAST_S = 10.0
"""With less left a run is not begun."""
NOT_BEGUN = "not begun"
CAPS = {"pp": 2200 << 20}
"""Bytes at which some ranks of a job run out of memory and others would not."""


class Bench:
    """The sections, by the options; `found` is what goes into the JSON file."""

    def __init__(self, options: argparse.Namespace, runs: Runs) -> None:
        self._options = options
        self._runs = runs
        self.found: dict[str, Any] = {}

    def peaks(self) -> None:
        """Each rank's peaks and losses, and whether real runs showed them; every case once before one comes again."""
        options = self._options
        self._runs.until = time.monotonic() + options.duration
        calls = [(case, way) for case in options.cases for way in (self._runs.captured, self._runs.real)]
        rounds = range(1, max(case.runs for case in options.cases))
        calls += [(case, self._runs.real) for number in rounds for case in options.cases if number < case.runs]

        def call(case: Case, way: Callable[..., Run]) -> tuple[Case, bool, Run]:
            if time.monotonic() > self._runs.until - LEAST_S:
                return case, False, Run({}, [], NOT_BEGUN)
            return case, way == self._runs.captured, way(case.job, case.world, options.iterations)

        with ThreadPoolExecutor(options.at_once) as pool:
            done = list(pool.map(lambda one: call(*one), calls))
        self._runs.until = float("inf")
        print(HEAD)
        for case in options.cases:
            mine = [(captured, run) for which, captured, run in done if which == case]
            ours = next((run for captured, run in mine if captured), Run({}, []))
            found = list(rows(case, ours, [run for captured, run in mine if not captured]))
            failed = [run.failed for _, run in mine if run.failed not in ("", NOT_BEGUN)]
            print("\n".join(table(case, found, failed)), flush=True)
            self._told("peaks", found)

    def cap(self) -> None:
        """Who runs out of memory under a cap."""
        rows = []
        for job, cap in CAPS.items():
            ours, theirs = (
                one(job, 2, self._options.iterations, cap) for one in (self._runs.captured, self._runs.real)
            )
            same = "same" if ours.oom == theirs.oom else "DIFFER"
            print(f"{job} under {cap >> 20} MiB: ranks {ours.oom} run out, really {theirs.oom}: {same}")
            print(f"    captured: {ours.failed[-160:]!r}; real: {theirs.failed[-160:]!r}")
            rows.append({"job": job, "cap": cap, "captured": ours.oom, "real": theirs.oom, "failed": theirs.failed})
        self._told("cap", rows)

    def iteration(self) -> None:
        """Predicted iterations against real ones of two GPUs."""
        rows = []
        for job, out in self._prepared(2, f"{{model: measured, table: {TABLE}}}"):
            failed = self._runs.prism(out, "capture,calibrate,replay")
            found, (low, high) = result(out), REAL_MS[job]
            ms = (found.get("iteration_ns_median") or 0) / 1e6
            print(f"{job}: predicted {ms:.2f} ms, {low} to {high} ms in earlier real runs {failed}", flush=True)
            clocks = (found.get("calibration") or {}).get("clocks")
            rows.append(
                {"job": job, "predicted_ms": ms, "earlier_real_ms": [low, high], "clocks": clocks, "failed": failed}
            )
        self._told("iteration", rows)

    def segments(self) -> None:
        """One rank alone: its segments, calibrated and plain; a plain run before, and one after."""
        told = []
        for job, out in self._prepared(1, "{model: none}"):
            before, first = self._runs.segmented(job, self._options.iterations)
            failed = self._runs.prism(out, "capture,calibrate,replay")
            after, second = self._runs.segmented(job, self._options.iterations)
            row: dict[str, Any] = {
                "job": job,
                "failed": [failed, before.failed, after.failed],
                "plain": [first, second],
            }
            if not any(row["failed"]):
                ours = calibrated(trace.read(out / "run" / "graph.prism").graph, 0)
                plain = [run["iterations"] for run in (first, second)]
                errors = [compared(ours, one, WARM_UPS) for one in plain] + [compared(plain[1], plain[0], WARM_UPS)]
                row["calibrated"] = ours
                row["errors"] = [one._asdict() for one in errors]
                row["posting_us"] = {name: statistics.median(us) for name, us in first["posting"].items()}
                row["clocks"] = result(out)["calibration"]["clocks"]
                _print_segments(row)
            else:
                print(f"{job} alone failed: {row['failed']}", flush=True)
            told.append(row)
        self._told("segments", told)

    def _prepared(self, world: int, network: str) -> Iterable[tuple[str, Path]]:
        """The jobs whose times are known, captured all at once; what is timed then has the GPU to itself."""
        jobs = [job for job in REAL_MS if job in self._options.jobs]
        folders = [self._runs.folder(f"timed-{job}-{world}") for job in jobs]
        for job, out in zip(jobs, folders, strict=True):
            more = f"devices: {{kind: cuda}}\ncapture: {{payloads: control}}\nnetwork: {network}\n"
            scenario(out, JOBS / f"job_{job}.py", [self._options.iterations], world, more)
        with ThreadPoolExecutor(len(jobs) or 1) as pool:
            list(pool.map(lambda out: self._runs.prism(out, "capture"), folders))
        return zip(jobs, folders, strict=True)

    def _told(self, section: str, rows: list[dict[str, Any]]) -> None:
        self.found.setdefault(section, []).extend(rows)
        if self._options.json:
            self._options.json.write_text(json.dumps(self.found, indent=1))


def _print_segments(row: dict[str, Any]) -> None:
    for name, one in zip(("before", "after", "plain runs"), row["errors"], strict=True):
        print(
            f"{row['job']} alone, {name:10}: {one['segments']} segments, mean error {one['plain']:.2%}, "
            f"by time {one['by_time']:.2%}, iteration {one['iteration']:+.2%}"
        )
    clocks = row["clocks"][0] if row["clocks"] else {}
    posting = ", ".join(f"{name} {us:.0f}" for name, us in row["posting_us"].items())
    print(f"    us of NCCL's posts, plain: {posting}; measured: {clocks.get('posting_ns')}; idle: {clocks.get('idle')}")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help="peaks, cap, iteration, segments")
    parser.add_argument("--cases", type=lambda text: [Case.of(one) for one in text.split(",")], default=CASES)
    parser.add_argument("--jobs", type=lambda text: text.split(","), default=list(REAL_MS))
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds that a run may take")
    parser.add_argument("--for", dest="duration", type=float, default=float("inf"), help="seconds for `peaks`")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path, help="folder for what the runs leave; left out: none of it is kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(options.keep or Path(folder), options.limit)
        bench = Bench(options, runs)
        for section in options.sections or ["peaks", "cap", "iteration", "segments"]:
            getattr(bench, section)()
        runs.end()


if __name__ == "__main__":
    main()
