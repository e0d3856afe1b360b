"""The schema of result.json: what a run found, in the shape that users and scripts rely on."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from prism.core.diagnosis import Diagnosis, Warning
from prism.core.events import PeakBreakdown

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


class Result(msgspec.Struct, kw_only=True):
    """result.json; times are integer nanoseconds, sizes bytes."""

    prism: int = 1
    scenario: str
    status: Status
    stages: dict[str, StageResult] = {}
    world_size: int
    nodes: int = 0
    ops: int = 0
    switches: int = 0
    iteration_ns: list[int] | None = None
    iteration_ns_median: int | None = None
    bubble_fraction: float | None = None
    critical_path: list[PathStep] = []
    ranks: list[RankResult] = []
    stragglers: list[StragglerResult] = []
    what_if: list[WhatIfResult] = []
    emulation: None = None
    diagnosis: Diagnosis | None = None
    warnings: list[Warning] = []

    def save(self, path: Path) -> None:
        """Write the result as indented JSON."""
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n")

    @classmethod
    def load(cls, path: Path) -> Result:
        """Read a result.json; raises msgspec.ValidationError with the path of what is wrong."""
        return msgspec.json.decode(path.read_bytes(), type=cls)
