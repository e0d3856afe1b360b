"""The report of a run: one HTML file that needs no network, and no script to be read; with one it can be moved in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from prism.core.diagnosis import Diagnosis, RankState
from prism.core.graph import Graph, Timeline
from prism.core.timeline.attribution import pipeline_stages
from prism.report.curves import draw_curves
from prism.report.heatmap import draw_heatmap
from prism.report.memory import PARTS, draw_memory, held
from prism.report.picture import MAX_ROWS, bands, draw, timeline_svg
from prism.report.roll import unroll
from prism.report.sources import source_of, source_text
from prism.report.surroundings import Surroundings
from prism.report.templates import environment, page_script
from prism.result import PathStep, RankResult, Result

__all__ = ["render_html", "timeline_svg"]

_WIDTH = 1000  # px: the inside of a card
_MAX_ITERATIONS = 4  # more would leave too few pixels to each
_MAX_STEPS = 8  # rows of the critical path's table
_MAX_STRAGGLERS = 8
NOWHERE = Surroundings()


@dataclass(frozen=True, slots=True)
class _Times:
    """How a band of ranks spends the predicted span, in ns; the mean of the band."""

    ranks: list[int]
    compute: float
    comm: float
    wait: float

    @property
    def total(self) -> float:
        return self.compute + self.comm + self.wait


@dataclass(frozen=True, slots=True)
class _Stage:
    """One stage of a pipeline, and the share of its ranks' time that they wait."""

    ranks: list[int]
    bubble: float


@dataclass(frozen=True, slots=True)
class _Step:
    """All that one rank does of one kind on the critical path, in ns."""

    rank: int
    kind: str
    ns: int


@dataclass(frozen=True, slots=True)
class _Bound:
    """The kind that takes most of the critical path, with its share; the rank with most of that kind."""

    kind: str
    share: float
    rank: int
    rank_share: float


@dataclass(frozen=True, slots=True)
class _Stuck:
    """Ranks that stand at the same place."""

    ranks: list[int]
    state: RankState


def render_html(
    result: Result,
    graph: Graph | None,
    timeline: Timeline | None,
    source_name: str,
    ranks_per_node: int = 1,
    around: Surroundings = NOWHERE,
) -> str:
    """The report as one HTML document; `source_name` says where the run came from, such as its scenario's file.

    Without `graph` or `timeline` (a run that did not get that far) what is drawn from them is left out.
    """
    script, digest = page_script()
    return environment.get_template("report.html.j2").render(
        result=result,
        source_name=source_name,
        standalone=False,
        script=script,
        digest=digest,
        stuck=_stuck(result.diagnosis),
        source_of=partial(source_of, base=around.base),
        source_text=partial(source_text, base=around.base),
        **_pictures(result, graph, timeline, ranks_per_node, around),
        **_tables(result),
        **_memory(result, graph, timeline, around),
    )


Shown = dict[str, object]
"""What a part of the template asks for, by name."""


def _pictures(
    result: Result, graph: Graph | None, timeline: Timeline | None, ranks_per_node: int, around: Surroundings
) -> Shown:
    """What is drawn from the graph and its timeline, and the sweeps."""
    curves = draw_curves(result.what_if)
    if graph is None or timeline is None:
        return {"picture": None, "shown": 0, "roll": None, "heat": None, "stages": [], "curves": curves}
    picture = draw(graph, timeline, _WIDTH, min(len(result.iteration_ns or [0]), _MAX_ITERATIONS))
    return {
        "picture": picture,
        "shown": len(picture.boundaries) - 1,
        "roll": unroll(graph, timeline, result.critical_path, (late.rank for late in result.stragglers)),
        "heat": draw_heatmap(graph, ranks_per_node, around.trees),
        "stages": _stages(graph, result.ranks),
        "curves": curves,
    }


def _tables(result: Result) -> Shown:
    """Where the time goes, by rank and on the critical path, and what the longest bars stand for."""
    steps, times = _steps(result.critical_path), _times(result.ranks)
    return {
        "bound": _bound(steps),
        "path_ns": sum(step.ns for step in steps),
        "steps": steps[:_MAX_STEPS],
        "steps_left": len(steps) - _MAX_STEPS,
        "times": times,
        "longest": max((row.total for row in times), default=0),
        "stragglers": result.stragglers[:_MAX_STRAGGLERS],
        "stragglers_left": len(result.stragglers) - _MAX_STRAGGLERS,
        "waited": sum(rank.wait_ns or 0 for rank in result.ranks),
        "slowest_rank": max(result.ranks, key=lambda rank: rank.compute_ns or 0, default=None),
        "slowest": max((variant.slowdown or 0 for variant in result.what_if), default=1.0),
    }


def _memory(result: Result, graph: Graph | None, timeline: Timeline | None, around: Surroundings) -> Shown:
    """Peaks, what they were made of, and the way there."""
    memory = held(result.ranks)
    made_of = [part for part in PARTS if any(part in row.parts for row in memory)]
    return {
        "memory": memory,
        "course": draw_memory(memory, around, graph, timeline, _WIDTH),
        "capacity": around.capacity,
        "made_of": made_of,
        "made_of_key": list(zip(made_of, made_of, strict=True)),
        "largest": max((max(row.peak, row.reserved or 0) for row in memory), default=0),
    }


def _steps(path: Iterable[PathStep]) -> list[_Step]:
    total: dict[tuple[int, str], int] = {}
    for step in path:
        total[step.rank, step.kind] = total.get((step.rank, step.kind), 0) + step.ns
    steps = [_Step(rank, kind, ns) for (rank, kind), ns in total.items() if ns]
    return sorted(steps, key=lambda step: (-step.ns, step.rank, step.kind))


def _bound(steps: list[_Step]) -> _Bound | None:
    """What bounds the iteration; `steps` have the longest first. None if nothing is known."""
    by_kind: dict[str, int] = {}
    for step in steps:
        by_kind[step.kind] = by_kind.get(step.kind, 0) + step.ns
    if not by_kind:
        return None
    kind = max(by_kind, key=lambda kind: by_kind[kind])
    top = next(step for step in steps if step.kind == kind)
    total = sum(by_kind.values())
    return _Bound(kind, by_kind[kind] / total, top.rank, top.ns / total)


def _times(ranks: list[RankResult]) -> list[_Times]:
    known = [
        (r.rank, r.compute_ns, r.comm_ns, r.wait_ns)
        for r in ranks
        if r.compute_ns is not None and r.comm_ns is not None and r.wait_ns is not None
    ]
    rows = []
    for band in bands(len(known)):
        members, *columns = zip(*(known[i] for i in band), strict=True)
        rows.append(_Times(list(members), *(sum(column) / len(band) for column in columns)))
    return rows


def _stages(graph: Graph, ranks: list[RankResult]) -> list[_Stage]:
    wait = {rank.rank: rank.wait_ns or 0 for rank in ranks}
    total = {rank.rank: (rank.compute_ns or 0) + (rank.comm_ns or 0) + wait[rank.rank] for rank in ranks}
    found = pipeline_stages(graph)
    if len(found) > MAX_ROWS or not total:
        return []
    return [_Stage(stage, sum(wait[r] for r in stage) / max(1, sum(total[r] for r in stage))) for stage in found]


def _stuck(diagnosis: Diagnosis | None) -> list[_Stuck]:
    """The ranks of a diagnosis, with those that tell the same joined, in order of their lowest rank."""
    places: dict[tuple[object, ...], _Stuck] = {}
    for state in diagnosis.ranks if diagnosis else []:
        place = (state.state, state.op, state.group, state.seq, state.callsite, state.traceback)
        places.setdefault(place, _Stuck([], state)).ranks.append(state.rank)
    return list(places.values())
