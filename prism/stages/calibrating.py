"""What calibration measures, and what comes of it: which ranks, over how many iterations, and when it is enough."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from prism.core.diagnosis import Warning
from prism.core.folding.measured import own_lanes, spread
from prism.core.graph import Graph, Int64, NodeKind
from prism.core.measuring.calibration import (
    NOT_MEASURED,
    Calibration,
    calibrate,
    iterations_to_run,
    place,
    spread_quantiles,
)
from prism.core.measuring.lead import Timings
from prism.core.measuring.sampling import TOLERANCE, Comparison, compare, sample, share
from prism.core.measuring.segments import FREE, Segments
from prism.core.measuring.signatures import ranks_alike
from prism.errors import ScenarioError
from prism.report.units import rank_ranges, time
from prism.result import CalibrationResult, Spread
from prism.scenario import Scenario
from prism.stages.folding import folding_of
from prism.stages.staging import fault_changes

T = TypeVar("T", np.int64, np.bool_)


class Measurements:
    """What has been measured of a graph, and what is still to be.

    All ranks are dealt to classes, of which samples are measured; a rank that shares with nobody is alone in its class.
    """

    def __init__(self, graph: Graph, scenario: Scenario) -> None:
        self.warnings: list[Warning] = []
        self._whole, self._folding = graph, folding_of(scenario)
        self._graph = graph = graph if self._folding is None else own_lanes(graph, self._folding)
        self._scenario = scenario
        self._iterations = _iterations(graph, scenario)
        self._classes = _classes(graph, scenario)
        self._values = np.full(len(graph.nodes), NOT_MEASURED, np.int64)
        self._hosts = np.full(len(graph.nodes), FREE)  # what hosts need, ns
        self._ranks: set[int] = set()  # those that were measured; only asked whether it has one

    def rounds(self) -> Iterator[tuple[tuple[int, ...], ...]]:
        """The slices to run, round by round; what is measured in one is added before the next is asked for.

        The first are of samples; the second, if there is one, of all others whose samples do not agree.
        """
        yield self._scenario.slices(sorted(rank for ranks in self._classes for rank in sample(ranks)))
        others = sorted(rank for ranks in self._unlike() for rank in ranks if rank not in self._ranks)
        if others:
            yield self._scenario.slices(others)

    def iterations(self, ranks: Sequence[int]) -> int:
        """After how many iterations the ranks of a slice are ended; 0: they end with their program."""
        needed = self._iterations[list(ranks)]
        return int(needed.max()) if needed.all() else self._scenario.capture.iterations or 0

    def add(self, rank: int, segments: Segments) -> None:
        """Take in what was measured of a rank."""
        place(self._graph, self._values, self._hosts, rank, segments)
        self._ranks.add(rank)

    def conclude(self) -> tuple[Timings, CalibrationResult]:
        """The timings of all nodes, and how sure they are."""
        calibration, compared = self._calibrated(), list[Comparison]()
        for ranks in self._classes:
            sampled = [rank for rank in ranks if rank in self._ranks]
            if len(sampled) < len(ranks):
                compared += self._compare(calibration, sampled)
        found = calibration.timings
        timings = Timings(self._of_all(found.durations), self._of_all(found.slack), self._of_all(found.waited))
        assert (timings.durations != NOT_MEASURED).all()
        measured = [rank for rank in range(self._graph.world_size) if rank in self._ranks]
        return timings, _told(calibration, measured, max((one.typical for one in compared), default=None))

    def _of_all(self, values: npt.NDArray[T]) -> npt.NDArray[T]:
        """Values of all nodes, from those of the ranks that were measured."""
        for ranks in self._classes:
            sampled = [rank for rank in ranks if rank in self._ranks]
            values = share(self._graph, values, sampled, [rank for rank in ranks if rank not in self._ranks])
        return values if self._folding is None else spread(self._whole, self._folding, values)

    def _unlike(self) -> Iterator[tuple[int, ...]]:
        """The classes whose samples do not agree, each with a warning."""
        shared = [ranks for ranks in self._classes if len(sample(ranks)) < len(ranks)]
        if not shared:
            return
        calibration = self._calibrated()
        for ranks in shared:
            apart = [one for one in self._compare(calibration, sample(ranks)) if not one.agrees]
            if apart:
                self.warnings.append(_not_alike(ranks, max(apart, key=lambda one: one.typical)))
                yield ranks

    def _calibrated(self) -> Calibration:
        warmup = self._scenario.calibrate.warmup
        return calibrate(self._graph, self._values, warmup, fault_changes(self._scenario), self._hosts)

    def _compare(self, calibration: Calibration, ranks: Sequence[int]) -> list[Comparison]:
        warmup = self._scenario.calibrate.warmup
        return compare(self._graph, self._values, calibration.timings.durations, ranks, warmup)


def _iterations(graph: Graph, scenario: Scenario) -> Int64:
    """After how many iterations each rank may be ended, int64[world]; 0: not before its program ends."""
    wanted = scenario.calibrate.iterations
    if wanted is None:
        return np.zeros(graph.world_size, np.int64)
    captured = int(graph.nodes["ref"][graph.nodes["kind"] == NodeKind.MARK].max(initial=-1)) + 1
    if wanted > captured:
        where = scenario.path or "scenario"
        what = f"{wanted} is more than the {captured} that were captured, leave it null for all"
        raise ScenarioError(f"{where}: $.calibrate.iterations: {what}")
    return iterations_to_run(graph, wanted, scenario.calibrate.warmup, fault_changes(scenario))


def _classes(graph: Graph, scenario: Scenario) -> list[tuple[int, ...]]:
    """The ranks that share measurements; those that a fault befalls do not."""
    if scenario.calibrate.share == "none":
        return [(rank,) for rank in np.unique(graph.lanes["rank"]).tolist()]
    return ranks_alike(graph, apart=fault_changes(scenario))


def _not_alike(ranks: Sequence[int], one: Comparison) -> Warning:
    first, other = (time(ns) for ns in one.times)
    text = (
        f"ranks {rank_ranges(ranks)} do the same operations and do not compute alike, so all of them were measured: "
        f"ranks {one.first} and {one.rank} differ by more than {100 * TOLERANCE:.0f} % in {one.differing} of "
        f"{one.iterations} iterations, most in iteration {one.most} ({first} and {other})"
    )
    return Warning(kind="not_alike", summary=text, ranks=list(ranks))


def _told(calibration: Calibration, measured: list[int], difference: float | None) -> CalibrationResult:
    spread = calibration.spread
    quantiles = spread_quantiles(spread, (0.5, 0.95, 0.99))
    return CalibrationResult(
        measured_ranks=measured,
        segments=len(spread),
        samples=int(spread["samples"].sum()),
        outliers=int(spread["outliers"].sum()),
        spread=Spread(*quantiles) if quantiles is not None else None,
        difference=difference,
    )
