"""What a scenario will do, stage by stage, before anything runs; and what it cost where it has run before."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import msgspec

from prism.folder import Folder
from prism.progress import Progress
from prism.report.units import rank_ranges, size, time
from prism.scenario import Link, NetworkChange, Scenario, WhatIf

RANK_BYTES = 17 << 20
"""What the process of a rank takes on a CPU before its program holds anything (docs/performance.md)."""


class StagePlan(msgspec.Struct, kw_only=True):
    """What a stage will do; `took_s` where it was done before, `reused` if --resume would use that again."""

    stage: str
    does: list[str]
    took_s: float | None = None
    reused: bool = False


class Explanation(msgspec.Struct, kw_only=True):
    """What a scenario will do; peak_bytes are those of a capture that lies in the folder."""

    scenario: str
    program: str
    ranks: int
    nodes: int
    output: str
    stages: list[StagePlan]
    peak_bytes: int | None = None
    where: str = ""

    def lines(self) -> Iterator[str]:
        """The same for a person."""
        yield f"{self.scenario}: {self.program} as {self.ranks:,} ranks on {self.where}; output in {self.output}"
        for plan in self.stages:
            first, *rest = plan.does
            yield f"  {plan.stage:<10} {first}"
            yield from (f"{'':<13}{line}" for line in rest)
            if plan.took_s is not None:
                again = ", and is used again with --resume" if plan.reused else "; something has changed since"
                yield f"{'':<13}was done in {plan.took_s:,.1f} s{again}"
        if self.peak_bytes:
            yield f"  {'memory':<10} the capture in the folder saw a peak of {size(self.peak_bytes)} on a rank"


def explain(scenario: Scenario, folder: Folder, done: Progress, before: Progress) -> Explanation:
    """`done` are the stages of the folder that would be used again with --resume, `before` all that are in it."""
    world, nodes = scenario.world, scenario.world.nodes
    captured = done.captured
    peaks = [rank.peak_bytes for rank in captured.ranks if rank.peak_bytes] if captured else []
    return Explanation(
        scenario=scenario.name,
        program=scenario.program.script or f"module {scenario.program.module}",
        ranks=world.size,
        nodes=nodes,
        where=f"{nodes:,} nodes of {world.ranks_per_node}" if nodes > 1 else "one node",
        output=str(folder.path),
        stages=[_plan(stage, scenario, done, before) for stage in scenario.stages],
        peak_bytes=max(peaks, default=None),
    )


def _plan(stage: str, scenario: Scenario, done: Progress, before: Progress) -> StagePlan:
    took = before.stages.get(stage)
    return StagePlan(
        stage=stage,
        does=list(_STAGES[stage](scenario)),
        took_s=took.wall_s if took is not None else None,
        reused=stage in done.stages,
    )


def _capture(scenario: Scenario) -> Iterator[str]:
    devices, capture = scenario.devices, scenario.capture
    until = f"{capture.iterations} iterations" if capture.iterations else "its program's end"
    yield f"runs {_executed(scenario)}, {devices.slots} at one time, each to {until}; no time is measured"
    if (count := _processes(scenario)) > 1 and devices.kind != "cuda":
        yield f"takes {count:,} processes, some {size(count * RANK_BYTES)} beside what the program itself holds"
    if devices.present_as:
        yield f"the program is told that it has an {devices.present_as}"
    if devices.memory:
        yield f"a rank that holds more than {size(devices.memory)} gets torch's OutOfMemoryError"
    kept = {
        "all": "every result of communication",
        "control": "results that steer the program",
        "none": "sizes and flags",
    }
    yield f"keeps {kept[capture.payloads]} in {scenario.name}'s folder"
    for fault in scenario.faults:
        yield f"rank {fault.rank} acts out: {fault.do} from iteration {fault.at.iteration} on"


def _calibrate(scenario: Scenario) -> Iterator[str]:
    count = scenario.calibrate.iterations or scenario.capture.iterations
    until = f"{count} iterations" if count else "all that were captured"
    yield f"times {_cut(scenario)}, each alone at full speed, for {until}"
    yield f"the first {scenario.calibrate.warmup} iterations are left out; all other ranks are answered from the record"
    if scenario.calibrate.share == "signature":
        yield "of ranks that do the same only samples are timed, if they agree"


def _replay(scenario: Scenario) -> Iterator[str]:
    network = scenario.network
    costs = {"none": "communication free", "measured": f"costs from {network.table}"}.get(network.model, "")
    links = f"{_link(network.intra_node)} inside nodes, {_link(network.inter_node)} between them"
    yield f"evaluates the graph in virtual time with {costs or links}"
    for variant in scenario.what_if:
        yield f"what if {variant.name}: {', '.join(_changed(variant))}"


def _emulate(scenario: Scenario) -> Iterator[str]:
    emulate = scenario.emulate
    program = f" running {emulate.program}" if emulate.program else ""
    yield f"runs rank{'s' * (len(emulate.sandbox) > 1)} {rank_ranges(emulate.sandbox)}{program} in wall time"
    yield f"all others are virtual; what they put in: {emulate.contribution}"
    yield f"payloads are read ahead into {size(emulate.pool)}"


def _processes(scenario: Scenario) -> int:
    """How many ranks have a process in a capture."""
    return scenario.world.size // (scenario.fold.shape.copies if scenario.fold is not None else 1)


_STAGES = {"capture": _capture, "calibrate": _calibrate, "replay": _replay, "emulate": _emulate}


def _executed(scenario: Scenario) -> str:
    if scenario.fold is None:
        return f"all {scenario.world.size:,} ranks" if scenario.world.size > 1 else "its only rank"
    one_each = prod(extent for name, extent in scenario.fold.mesh.items() if name not in scenario.fold.over)
    ranks = f"{one_each:,} ranks, one of each class" if one_each > 1 else "one rank, for all"
    return f"{ranks} of {scenario.world.size // one_each:,}"


def _cut(scenario: Scenario) -> str:
    """How ranks come to be timed."""
    if scenario.fold is not None:
        return f"the ranks that ran, {scenario.devices.slots} at one time"
    count, widest = _slices(scenario)
    return f"ranks in {count:,} slices of up to {widest}" if count > 1 else "ranks in one slice"


def _slices(scenario: Scenario) -> tuple[int, int]:
    """How many slices all ranks are in, and the ranks of the largest; the slices themselves are not made for that."""
    chosen, world = scenario.calibrate.slice, scenario.world
    if isinstance(chosen, tuple):
        return len(chosen), max(map(len, chosen))
    widths = {"auto": scenario.devices.slots, "node": world.ranks_per_node}
    width = chosen if isinstance(chosen, int) else widths[chosen]
    return -(-world.size // width), min(width, world.size)


def _link(link: Link) -> str:
    return f"{link.bandwidth / 1e9:g} GB/s and {time(link.latency)}"


def _changed(variant: WhatIf) -> Iterator[str]:
    """The blocks of the variant that are given."""
    for key in variant.__struct_fields__:
        value = getattr(variant, key)
        if key != "name" and value not in (None, NetworkChange()):
            yield key.replace("_", " ")
