"""The schema of result.json: what a run found, in the shape that users and scripts rely on."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from prism.atomic import write_whole
from prism.core.diagnosis import Diagnosis, Warning
from prism.core.events import Clocked, PeakBreakdown
from prism.core.stage.kept import PayloadCount
from prism.core.stage.ranks import Rank
from prism.core.stage.residency import ResidencyCount

Status = Literal["ok", "failed", "partial"]


class StageResult(msgspec.Struct, kw_only=True):
    status: Literal["ok", "failed", "reused", "interrupted"]
    wall_s: float


class PathStep(msgspec.Struct, kw_only=True):
    """One piece of the critical path: a kind (compute, or an op's kind) and how long it holds the path."""

    rank: int
    kind: str
    ns: int


class RankResult(msgspec.Struct, kw_only=True):
    """One rank; times are of the predicted span, null before replay. peak_bytes is null where it was not metered."""

    rank: int
    exit: int | None = None
    cut: bool = False
    peak_bytes: int | None = None
    peak_breakdown: PeakBreakdown | None = None
    reserved_bytes: int | None = None
    compute_ns: int | None = None
    comm_ns: int | None = None
    wait_ns: int | None = None
    iterations: int = 0

    @classmethod
    def of(cls, rank: Rank) -> RankResult:
        """What a world saw of the rank."""
        return cls(
            rank=rank.rank,
            exit=rank.code,
            cut=rank.cut,
            peak_bytes=rank.peak_bytes,
            peak_breakdown=rank.peak_breakdown,
            reserved_bytes=rank.reserved_bytes,
            iterations=rank.iterations,
        )


class Spread(msgspec.Struct):
    """How far segments spread between iterations (interquartile range over median), at shares of the compute time."""

    p50: float
    p95: float
    p99: float


class DeviceClocks(msgspec.Struct, kw_only=True):
    """How the GPU of a rank ran before and after the rank was timed: MHz of its cores, watts, degrees Celsius.

    throttled: why it ran slower than it could, at any time meanwhile. idle: the share of its posts, waits and marks at
    which it had nothing left to do. posting_ns: what NCCL's calls hold the host for, by kind.
    """

    rank: int
    sm_mhz: list[int]
    power_w: list[int]
    temperature_c: list[int]
    throttled: list[str] = []
    idle: float | None = None
    posting_ns: dict[str, int] = {}

    @classmethod
    def of(cls, seen: Clocked) -> DeviceClocks:
        """What a rank told."""
        states = (seen.before, seen.after)
        return cls(
            rank=seen.rank,
            sm_mhz=[state.sm_mhz for state in states],
            power_w=[state.power_w for state in states],
            temperature_c=[state.temperature_c for state in states],
            throttled=list(seen.throttled),
            idle=seen.idle / seen.steps if seen.steps else None,
            posting_ns=seen.posting,
        )


class CalibrationResult(msgspec.Struct, kw_only=True):
    """How sure the durations are: what was measured, and how far it spreads (null: no segment was measured twice).

    difference: by how much ranks that share a measurement differed, at most; null if none share.
    """

    measured_ranks: list[int]
    segments: int
    samples: int
    outliers: int
    spread: Spread | None
    difference: float | None
    clocks: list[DeviceClocks] = []
    """Of each rank that was timed on a GPU."""


class FoldResult(msgspec.Struct, kw_only=True):
    """Which ranks ran, and which of the others were compared with those that stand for them, and in what."""

    ran: list[int]
    verified: list[int] = []
    compare: str | None = None
    seed: int | None = None


class StalledRank(msgspec.Struct, kw_only=True):
    """A rank that waits for ever once another has stopped: since when, and for which op on which group."""

    rank: int
    since_ns: int
    op: str | None = None
    group: str | None = None


class StragglerResult(msgspec.Struct, kw_only=True):
    """A rank that others waited for: how long they did in all, and where it came late most (`path:line`)."""

    rank: int
    caused_ns: int
    site: str | None = None


class WhatIfResult(msgspec.Struct, kw_only=True):
    """One variant of the replay; slowdown is its median iteration over the base's, both null if the job stalls."""

    name: str
    iteration_ns_median: int | None
    slowdown: float | None
    percentiles: dict[str, int] | None = None
    """Of the iterations of all draws, for a variant with jitter: p5, p50, p95 and p99, in ns."""

    stalled: list[StalledRank] = []


class EmulatedRank(msgspec.Struct):
    """One sandbox rank: its iterations in wall time, warm-up left out, its peak memory, and what its engine moved.

    communicator_bytes: on a GPU, what its engine held in the place of NCCL's own communicators, which is an estimate.
    starved: the share of the time in which its main thread could run that it had no core; null where that is not known.
    """

    rank: int
    iteration_ns: list[int]
    peak_bytes: int | None = None
    steps: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    communicator_bytes: int | None = None
    starved: float | None = None


class PrefetchResult(msgspec.Struct, kw_only=True):
    """Payloads that were there when they were needed, that were not even begun, and that were still being read."""

    hits: int
    misses: int
    stalls: int


class EmulationResult(msgspec.Struct, kw_only=True):
    """What the sandbox ranks did in wall time among virtual ranks.

    error_vs_replay: median over sandbox ranks of (emulated - replay) / replay, signed. groups, ops: those that exist,
    because they touch the sandbox.
    """

    sandbox: list[int]
    ranks: list[EmulatedRank]
    error_vs_replay: float | None
    contribution: str
    groups: int
    ops: int
    prefetch: PrefetchResult

    @property
    def most_starved(self) -> EmulatedRank | None:
        """The sandbox rank that waited for a core in the largest share of its time; None where that is not known."""
        known = [rank for rank in self.ranks if rank.starved is not None]
        return max(known, key=lambda rank: rank.starved or 0, default=None)


class Result(msgspec.Struct, kw_only=True):
    """result.json; times are integer nanoseconds, sizes bytes."""

    prism: int = 1
    scenario: str
    status: Status
    stages: dict[str, StageResult] = {}
    world_size: int
    device: str | None = None
    """The kind of device that ranks ran on: cpu or cuda."""

    nodes: int = 0
    ops: int = 0
    switches: int = 0
    payloads: PayloadCount | None = None
    residency: ResidencyCount | None = None
    fold: FoldResult | None = None
    calibration: CalibrationResult | None = None
    iteration_ns: list[int] | None = None
    iteration_ns_median: int | None = None
    bubble_fraction: float | None = None
    critical_path: list[PathStep] = []
    ranks: list[RankResult] = []
    stragglers: list[StragglerResult] = []
    what_if: list[WhatIfResult] = []
    emulation: EmulationResult | None = None
    diagnosis: Diagnosis | None = None
    warnings: list[Warning] = []

    def save(self, path: Path) -> None:
        """Write the result as indented JSON."""
        write_whole(path, [msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"])

    @classmethod
    def load(cls, path: Path) -> Result:
        """Read a result.json; raises msgspec.ValidationError with the path of what is wrong."""
        return msgspec.json.decode(path.read_bytes(), type=cls)
