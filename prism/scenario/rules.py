"""What the types of the schema cannot say: which values of a scenario rule each other out."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Literal, get_args

from prism.scenario.flaw import Flaw, Path
from prism.scenario.launcher_rules import refuse_launcher
from prism.scenario.network_rules import refuse_network

if TYPE_CHECKING:
    from prism.scenario.blocks import Fault
    from prism.scenario.schema import Scenario
    from prism.scenario.what_if import Replicas, Slow, WhatIf

Stage = Literal["capture", "calibrate", "replay", "emulate"]
STAGES: tuple[Stage, ...] = get_args(Stage)
"""In the only order in which they can run."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MARKER = re.compile(r"optimizer|[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def refuse_impossible(scenario: Scenario) -> None:
    """Raise Flaw for the first impossible value or combination."""
    _refuse_names(scenario)
    _refuse_program(scenario)
    _refuse_fold(scenario)
    _refuse_stages(scenario)
    _refuse_iterations(scenario)
    _refuse_slices(scenario)
    _refuse_ranks(scenario)
    _refuse_spill(scenario)
    _refuse_contribution(scenario)
    refuse_launcher(scenario)
    refuse_network(("network",), scenario.network, scenario, scenario.world)
    for index, variant in enumerate(scenario.what_if):
        _refuse_variant(("what_if", index), variant, scenario)


def _refuse_names(scenario: Scenario) -> None:
    if not _NAME.fullmatch(scenario.name):  # it names a directory of results
        raise Flaw(("name",), f"expected letters, digits, '.', '_' and '-', got {scenario.name!r}")
    if not _MARKER.fullmatch(scenario.iteration.marker):
        marker = scenario.iteration.marker
        raise Flaw(("iteration", "marker"), f"expected optimizer or module:qualname, got {marker!r}")
    names = [variant.name for variant in scenario.what_if]
    for index, name in enumerate(names):
        if name in names[:index]:
            first = names.index(name)
            raise Flaw(("what_if", index, "name"), f"{name!r} is the name of $.what_if[{first}] too, choose another")


def _refuse_program(scenario: Scenario) -> None:
    program = scenario.program
    if (program.script is None) == (program.module is None):
        given = "neither" if program.script is None else "both"
        raise Flaw(("program",), f"expected one of script and module, got {given}")
    for key, words in (("script", "a path"), ("module", "the name of a module")):
        if getattr(program, key) == "":
            raise Flaw(("program", key), f"expected {words}, got ''")
    if scenario.script is not None and not os.path.isfile(scenario.script):  # also where it is too long for a name
        raise Flaw(("program", "script"), f"no such file: {program.script!r}, paths are relative to {scenario.base}")
    for key in program.env:
        if not key or "=" in key or "\0" in key:
            raise Flaw(("program", "env", key), "expected the name of an environment variable, without '='")


def _refuse_fold(scenario: Scenario) -> None:
    fold, size = scenario.fold, scenario.world.size
    if fold is None:
        return
    if prod(fold.mesh.values()) != size:
        raise Flaw(("fold", "mesh"), f"{_extents(fold.mesh)}, expected world.size {size}")
    for index, name in enumerate(fold.over):
        if name not in fold.mesh:
            what = f"the mesh has no dimension {name!r}, choose from {', '.join(fold.mesh)}"
            raise Flaw(("fold", "over", index), what)
        if name in fold.over[:index]:
            raise Flaw(("fold", "over", index), f"{name} is listed twice, keep one")
    others = size - size // fold.shape.copies
    if fold.verify > others:
        raise Flaw(("fold", "verify"), f"only {others} ranks are folded, expected at most so many, got {fold.verify}")
    if fold.verify and scenario.capture.payloads != "all":
        what = f"ranks are verified with what was captured of others, and {scenario.capture.payloads} keeps too little"
        raise Flaw(("capture", "payloads"), f"{what}; choose all, or leave fold.verify 0")


def _refuse_folded(path: Path, rank: int, scenario: Scenario) -> None:
    """A rank that acts has to run."""
    if scenario.fold is None:
        return
    runs = scenario.fold.shape.representative(rank)
    if runs != rank:
        raise Flaw(path, f"rank {rank} is folded and does not run, choose one that does, such as {runs}")


def _extents(mesh: dict[str, int]) -> str:
    shape = " x ".join(f"{name} {extent}" for name, extent in mesh.items())
    return f"{shape or 'nothing'} has {prod(mesh.values())} ranks"


def _refuse_spill(scenario: Scenario) -> None:
    devices = scenario.devices
    if devices.spill is not None and devices.host_memory is None:
        what = "nothing is spilled without a bound on what may stay in memory, set devices.host_memory"
        raise Flaw(("devices", "spill"), what)


def _refuse_stages(scenario: Scenario) -> None:
    if not scenario.stages:
        raise Flaw(("stages",), f"expected at least one stage, choose from {', '.join(STAGES)}")
    for index, (before, stage) in enumerate(pairwise(scenario.stages), start=1):
        if stage == before:
            raise Flaw(("stages", index), f"{stage} is listed twice, keep one")
        if STAGES.index(stage) < STAGES.index(before):
            raise Flaw(("stages", index), f"{stage} cannot follow {before}, the order is {', '.join(STAGES)}")


def _refuse_iterations(scenario: Scenario) -> None:
    captured = scenario.capture.iterations
    for block in ("calibrate", "emulate"):
        count = getattr(scenario, block).iterations
        if captured is not None and count is not None and count > captured:
            what = f"{count} is more than capture.iterations, expected at most {captured}"
            raise Flaw((block, "iterations"), what)
    warmup, measured = scenario.calibrate.warmup, scenario.calibrate.iterations or captured
    if "calibrate" in scenario.stages and measured is not None and warmup >= measured:
        what = f"{warmup} of {measured} iterations leaves none to measure, expected at most {measured - 1}"
        raise Flaw(("calibrate", "warmup"), what)


def _refuse_slices(scenario: Scenario) -> None:
    slices, size = scenario.calibrate.slice, scenario.world.size
    if not isinstance(slices, tuple):
        return
    path: Path = ("calibrate", "slice")
    places = {(*path, row, column): rank for row, ranks in enumerate(slices) for column, rank in enumerate(ranks)}
    _refuse_rank_list(places.items(), size)
    for row, ranks in enumerate(slices):
        if not ranks:
            raise Flaw((*path, row), "an empty slice, list its ranks or leave it out")
    running = range(size) if scenario.fold is None else scenario.fold.shape.representatives
    listed = set(places.values())
    missing = [rank for rank in running if rank not in listed]
    if missing:
        what = f"{len(missing)} of {len(running)} ranks are in no slice, the first is {missing[0]}"
        raise Flaw(path, what if scenario.fold is None else f"{what}; those that are folded need none")


def _refuse_contribution(scenario: Scenario) -> None:
    """Sums need what the capture keeps of the virtual ranks' parts."""
    needs = scenario.emulate.contribution not in ("zeros", "replicas")
    if "emulate" in scenario.stages and needs and scenario.capture.payloads != "all":
        kept, contribution = scenario.capture.payloads, scenario.emulate.contribution
        what = f"{kept} keeps no sums for the contribution {contribution}, choose all, or zeros or replicas for that"
        raise Flaw(("capture", "payloads"), what)
    algorithm = scenario.network.algorithm
    if "emulate" in scenario.stages and scenario.emulate.contribution == "prefolded" and algorithm != "ring":
        what = f"prefolded is not available yet with network.algorithm {algorithm}, choose left or exact"
        raise Flaw(("emulate", "contribution"), what)


def _refuse_ranks(scenario: Scenario) -> None:
    size = scenario.world.size
    _refuse_rank_list(_placed(("emulate", "sandbox"), scenario.emulate.sandbox), size)
    for path, rank in _placed(("emulate", "sandbox"), scenario.emulate.sandbox):
        _refuse_folded(path, rank, scenario)
    for index, fault in enumerate(scenario.faults):
        _refuse_rank_list([(("faults", index, "rank"), fault.rank)], size)
        _refuse_folded(("faults", index, "rank"), fault.rank, scenario)
        _refuse_fault(("faults", index), fault, scenario.capture.iterations)


def _refuse_variant(path: Path, variant: WhatIf, scenario: Scenario) -> None:
    if variant.replicas is not None:
        _refuse_replicas((*path, "replicas"), variant.replicas, scenario.world.size)
    world = variant.world(scenario.world)
    whose = "world.size" if variant.replicas is None else "the variant's world of"
    if variant.slow is not None:
        _refuse_rank_list(_placed((*path, "slow", "ranks"), variant.slow.ranks), world.size, whose)
        _refuse_times((*path, "slow"), variant.slow)
    if variant.fail is not None:
        _refuse_rank_list([((*path, "fail", "rank"), variant.fail.rank)], world.size, whose)
        if variant.jitter is not None:
            raise Flaw((*path, "jitter"), "a variant in which a rank fails is not drawn, leave one of the two out")
    refuse_network((*path, "network"), variant.network.applied(scenario.network), scenario, world)


def _refuse_replicas(path: Path, replicas: Replicas, size: int) -> None:
    mesh, over = replicas.mesh, replicas.over
    if prod(mesh.values()) != size:
        raise Flaw((*path, "mesh"), f"{_extents(mesh)}, expected world.size {size}")
    if over not in mesh:
        raise Flaw((*path, "over"), f"the mesh has no dimension {over!r}, choose from {', '.join(mesh)}")
    if mesh[over] == 1:
        raise Flaw((*path, "over"), f"of one rank along {over} nobody can tell what more would do, capture at least 2")
    if replicas.to % mesh[over]:
        raise Flaw((*path, "to"), f"expected a multiple of {mesh[over]}, the extent of {over}, got {replicas.to}")


def _refuse_times(path: Path, slow: Slow) -> None:
    since = slow.since or 0
    if slow.until is not None and slow.until <= since:
        raise Flaw((*path, "until"), f"expected more than {since}ns, the time at which it begins")
    if slow.period is not None and slow.until is None:
        raise Flaw((*path, "period"), "without an end it never comes again, give until")
    if slow.period is not None and slow.until is not None and slow.period <= slow.until - since:
        raise Flaw((*path, "period"), f"expected more than {slow.until - since}ns, the time from its begin to its end")


def _refuse_fault(path: Path, fault: Fault, captured: int | None) -> None:
    begins = fault.at.iteration
    if captured is not None and begins >= captured:
        what = f"iteration {begins} never begins, capture.iterations {captured} has iterations 0 to {captured - 1}"
        raise Flaw((*path, "at", "iteration"), what)
    if fault.do != "slow":
        for key in ("until", "factor"):
            if getattr(fault, key) is not None:
                raise Flaw((*path, key), f"only slow has it, leave it out for {fault.do}")
        return
    if fault.factor is None or fault.factor < 1:
        raise Flaw((*path, "factor"), f"expected a number of at least 1 for slow, got {fault.factor or 'null'}")
    if fault.until is not None and fault.until.iteration <= begins:
        raise Flaw((*path, "until", "iteration"), f"expected more than {begins}, the iteration at which it begins")


def _placed(path: Path, ranks: tuple[int, ...]) -> list[tuple[Path, int]]:
    return [((*path, index), rank) for index, rank in enumerate(ranks)]


def _refuse_rank_list(ranks: Iterable[tuple[Path, int]], size: int, whose: str = "world.size") -> None:
    seen: set[int] = set()
    for path, rank in ranks:
        if not 0 <= rank < size:
            raise Flaw(path, f"rank {rank} does not exist, {whose} {size} has ranks 0 to {size - 1}")
        if rank in seen:
            raise Flaw(path, f"rank {rank} is listed twice, keep one")
        seen.add(rank)
