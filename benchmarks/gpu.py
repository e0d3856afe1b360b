"""Captures and predictions on one GPU against real runs of the same jobs on it.

    python -m benchmarks.gpu [--jobs ddp,tp] [--worlds 2,4,8] [--runs 5] [--iterations 8] [--at-once 1] [--limit 120]
                             [--for 300] [--json FILE] [--keep FOLDER] [SECTION...]

Sections, all if none is named. `peaks`: losses and peaks of memory of every rank, captured, against those of real runs:
NCCL with as many processes on the one GPU, each with a host id of its own (times of such a run mean nothing). `cap`:
under a cap on memory, the ranks that run out of it. `iteration`: predicted iterations at two ranks against those of two
GPUs joined by NVLink. `segments`: the predicted iteration of one rank alone against a plain run of it.

`--at-once`: how many runs of `peaks` share the GPU at a time. Each run has `--limit` seconds; one that takes longer is
told as failed. `--for`: seconds after which `peaks` begins no further run. benchmarks.gpu_switch, gpu_pressure and
gpu_many have the other figures.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.gpu_runs import JOBS, Run, Runs, result, scenario

TABLE = Path(__file__).parent / "h200-nvlink.csv"
REAL_MS = {"ddp": (47.9, 49.4), "tp": (33.6, 33.8)}
"""Medians of earlier real runs on two H200s joined by NVLink; TABLE has the times of their links."""
CAPS = {"pp": 2200 << 20}
"""Bytes at which some ranks of a job run out of memory and others would not."""


class Bench:
    """The sections, by the options; `found` is what goes into the JSON file."""

    def __init__(self, options: argparse.Namespace, runs: Runs) -> None:
        self._options = options
        self._runs = runs
        self.found: dict[str, Any] = {}

    def peaks(self) -> None:
        """Each rank's peaks and losses, and whether they are among those of the real runs."""
        options, begun = self._options, time.monotonic()
        cases = [(job, world) for world in options.worlds for job in options.jobs]
        calls: list[tuple[tuple[str, int], Callable[..., Run]]] = [(case, self._runs.captured) for case in cases]
        calls += [(case, self._runs.real) for _ in range(options.runs) for case in cases]

        def call(what: tuple[tuple[str, int], Callable[..., Run]]) -> Run | None:
            late = time.monotonic() - begun > options.duration
            return None if late else what[1](*what[0], options.iterations)

        with ThreadPoolExecutor(options.at_once) as pool:
            runs = list(pool.map(call, calls))
        heads = f"{'allocated':>16}{'reserved':>16}{'loss apart':>12}  real allocated; reserved"
        print(f"{'job':6}{'world':>6}{'rank':>5}{heads}", flush=True)
        for case, ours in zip(cases, runs, strict=False):
            theirs = [
                run for (what, _), run in zip(calls[len(cases) :], runs[len(cases) :], strict=True) if what == case
            ]
            if ours is not None:
                self._told("peaks", list(_peak_rows(*case, ours, [run for run in theirs if run is not None])))

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
        """One rank alone: predicted from its segments, and plain."""
        rows = []
        for job, out in self._prepared(1, "{model: none}"):
            plain = self._runs.real(job, 1, self._options.iterations)
            failed = self._runs.prism(out, "capture,calibrate,replay")
            again = self._runs.real(job, 1, self._options.iterations)
            ms = (result(out).get("iteration_ns_median") or 0) / 1e6
            medians = [statistics.median(run.reports[0]["ms"][2:]) for run in (plain, again) if run.reports]
            told = ", ".join(f"{one:.2f}" for one in medians)
            print(f"{job} alone: predicted {ms:.2f} ms, plain {told} ms {failed}", flush=True)
            rows.append({"job": job, "predicted_ms": ms, "plain_ms": medians, "failed": failed})
        self._told("segments", rows)

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


def _peak_rows(job: str, world: int, ours: Run, theirs: Sequence[Run]) -> Iterable[dict[str, Any]]:
    for run in (ours, *theirs):
        if run.failed:
            print(f"{job:6}{world:6} failed: {run.failed[-300:]}")
    for rank in sorted(ours.reports):
        report = ours.reports[rank]
        others = [run.reports[rank] for run in theirs if rank in run.reports]
        row: dict[str, Any] = {
            "job": job,
            "world": world,
            "rank": rank,
            "told": report.get("told"),
            "real": len(others),
        }
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
