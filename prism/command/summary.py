"""The summary on standard output: what a run found, in one screen."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from rich.console import Console
from rich.table import Table

from prism.command.hints import hints
from prism.command.last_words import last_words
from prism.command.tracebacks import tracebacks
from prism.core.diagnosis import Diagnosis
from prism.folder import Folder
from prism.report.units import percent, rank_ranges, size, time
from prism.result import CalibrationResult, EmulationResult, FoldResult, RankResult, Result, WhatIfResult

MOST_RANKS = 16
"""More ranks than this are told by the report only."""


def print_summary(result: Result, folder: Folder, console: Console) -> None:
    """Print the result for a person; failures first."""

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    say(f"{result.scenario}: {result.status}, {result.world_size} ranks, {result.nodes} nodes, {result.ops} operations")
    if result.diagnosis is not None:
        for line in _diagnosis(result.diagnosis, folder, _failed(result)):
            say(line)
    cut = max((rank.iterations for rank in result.ranks if rank.cut), default=0)
    if cut and result.diagnosis is None:
        say(f"  cut        after {cut} iterations (capture.iterations): what the program does then did not run")
    if result.fold is not None and result.diagnosis is None:
        say(f"  folded     {_fold(result.fold)}")
    if result.calibration is not None:
        say(f"  calibrated {_calibration(result.calibration, result.world_size)}")
    if result.iteration_ns_median is not None:
        say(f"  iteration  {time(result.iteration_ns_median)} (median of {len(result.iteration_ns or [])})")
        say(f"  bubble     {percent(result.bubble_fraction or 0)} of all rank time is spent waiting for other ranks")
    if 0 < len(result.ranks) <= MOST_RANKS and result.status == "ok":
        console.print(_ranks(result.ranks))
    if result.what_if:
        console.print(_what_if(result))
    if result.emulation is not None:
        for line in _emulation(result.emulation):
            say(line)
    for warning in result.warnings:
        say(f"  warning: {warning.summary}")
    say(f"  result     {folder.result}")
    for path in (folder.report, folder.timeline):
        if path.exists():
            say(f"  {'report' if path == folder.report else 'timeline':<10} {path}")


def _failed(result: Result) -> str:
    """The stage that failed."""
    return next((name for name, stage in result.stages.items() if stage.status == "failed"), "capture")


def _diagnosis(diagnosis: Diagnosis, folder: Folder, stage: str) -> Iterator[str]:
    """What went wrong in a stage: what ranks said first, the reason last, where a terminal ends."""
    yield from last_words(diagnosis, folder, stage)
    yield from tracebacks(diagnosis, folder, stage)
    yield f"  {diagnosis.kind}: {diagnosis.summary}"
    if diagnosis.last_common is not None:
        last = diagnosis.last_common
        yield f"  last in common: {last.op}, operation {last.seq} of group {last.group}"
    if diagnosis.cycle:
        yield f"  cycle: ranks {rank_ranges(diagnosis.cycle)} wait for each other"
    yield from (f"  hint: {hint}" for hint in hints(diagnosis))


def _fold(found: FoldResult) -> str:
    """Who ran, and who was verified."""
    ran = f"{len(found.ran):,} rank{'s' * (len(found.ran) > 1)} ran for all"
    if not found.verified:
        return f"{ran}; fold.verify runs some of the others, to see whether they do the same"
    what = "and put in the same bytes" if found.compare == "payloads" else "bytes not compared"
    return f"{ran}; {rank_ranges(found.verified)} (seed {found.seed}) did the same, {what}"


def _calibration(found: CalibrationResult, world_size: int) -> str:
    """How much was measured, and how sure it is."""
    ranks = f"{len(found.measured_ranks):,} of {world_size:,} ranks"
    if not found.segments:
        return f"{ranks}, no iteration after the warm-up"
    iterations = f"{found.samples / found.segments:.1f}".removesuffix(".0")  # fewer of some, where not all are alike
    seen = f" x {iterations} iterations" if found.samples > found.segments else ", each measured in one iteration"
    told = [ranks, f"{found.segments:,} segments{seen}"]
    if found.spread is not None:
        told.append(f"spread {percent(found.spread.p50)} (median)")
    if found.difference is not None:
        told.append(f"ranks that share differ by {percent(found.difference)}")
    return ", ".join([*told, f"{found.outliers:,} outlier{'' if found.outliers == 1 else 's'}"])


def _ranks(ranks: list[RankResult]) -> Table:
    table = Table("rank", "compute", "communication", "wait", "peak memory", box=None, pad_edge=False, padding=(0, 2))
    for column in table.columns:
        column.justify = "right"
    for rank in ranks:
        times = ("-" if ns is None else time(ns) for ns in (rank.compute_ns, rank.comm_ns, rank.wait_ns))
        table.add_row(str(rank.rank), *times, "-" if rank.peak_bytes is None else size(rank.peak_bytes))
    return table


def _emulation(emulation: EmulationResult) -> Iterator[str]:
    for rank in emulation.ranks[:MOST_RANKS]:
        if rank.iteration_ns:
            iteration = time(round(median(rank.iteration_ns)))
            yield f"  emulated   rank {rank.rank}: {iteration} (median of {len(rank.iteration_ns)})"
    if emulation.error_vs_replay is not None:
        prefetch = emulation.prefetch
        yield (
            f"             {emulation.error_vs_replay:+.2%} against replay; {emulation.groups} groups, {emulation.ops} "
            f"operations; payloads: {prefetch.hits} read ahead, {prefetch.misses} late, {prefetch.stalls} waited for"
        )
    if (most := emulation.most_starved) is not None:
        waited = f"waited for a core in {percent(most.starved or 0)} of the time in which it could compute"
        yield f"             by wall time, in which rank {most.rank} {waited}"


def _what_if(result: Result) -> Table:
    table = Table("what if", "iteration", "slowdown", "", box=None, pad_edge=False, padding=(0, 2))
    for variant in result.what_if:
        iteration = "-" if variant.iteration_ns_median is None else time(variant.iteration_ns_median)
        slowdown = "-" if variant.slowdown is None else f"{variant.slowdown:.3f}x"
        table.add_row(variant.name, iteration, slowdown, _remark(variant))
    return table


def _remark(variant: WhatIfResult) -> str:
    """What the median of a variant does not say."""
    if variant.stalled:
        first = min(stall.since_ns for stall in variant.stalled)
        return f"stalls from {time(first)}: ranks {rank_ranges([stall.rank for stall in variant.stalled])}"
    return ", ".join(f"{name} {time(ns)}" for name, ns in (variant.percentiles or {}).items() if name != "p50")
