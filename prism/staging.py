"""What a stage needs before it can begin, from the scenario's words to the workers'."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence

from prism.core.diagnosis import Warning
from prism.errors import RunError
from prism.folder import Folder
from prism.net.messages import Misfortune, Program, Setup
from prism.scenario import Fault, Scenario


def stage_setup(scenario: Scenario, folder: Folder, stage: str) -> Setup:
    """What workers and ranks need to know of a stage; paths are absolute."""
    program = scenario.program
    return Setup(
        program=Program(
            script=str(scenario.script.resolve()) if scenario.script else "",
            module=program.module or "",
            args=program.args,
            env=program.env,
            preload=program.preload,
            marker=scenario.iteration.marker,
        ),
        world_size=scenario.world.size,
        ranks_per_node=scenario.world.ranks_per_node,
        semantics=scenario.semantics,
        present_as=scenario.devices.present_as or "",
        payloads=str(folder.payloads.resolve()),
        logs=str(folder.logs.resolve()),
        iterations=scenario.capture.iterations or 0,
        stage=stage,
        answered=stage == "calibrate",
        faults=tuple(_misfortune(fault) for fault in scenario.faults),
        memory=scenario.devices.memory or 0,
    )


def _misfortune(fault: Fault) -> Misfortune:
    return Misfortune(
        rank=fault.rank,
        iteration=fault.at.iteration,
        do=fault.do,
        until=fault.until.iteration if fault.until else None,
        factor=fault.factor or 1.0,
    )


def refuse_what_nothing_enforces(scenario: Scenario) -> None:
    """Raise RunError for a capacity that this installation cannot hold ranks to."""
    if scenario.devices.memory is not None and importlib.util.find_spec("prism.gpu._allocator") is None:
        raise RunError(
            "$.devices.memory: a capacity needs the extension prism.gpu._allocator, which is not built; build it with "
            "`pip install --no-build-isolation -e .` and a C++20 compiler, or leave the capacity null"
        )


def fault_changes(scenario: Scenario) -> dict[int, list[int]]:
    """The iterations at which faults make a rank another, by rank."""
    changes: dict[int, list[int]] = {}
    for fault in scenario.faults:
        ends = [fault.until.iteration] if fault.until else []
        changes.setdefault(fault.rank, []).extend([fault.at.iteration, *ends])
    return changes


def crowded(slices: Sequence[Sequence[int]]) -> list[Warning]:
    """A warning if more ranks are timed at once than there are cores."""
    most, cores = max(len(ranks) for ranks in slices), len(os.sched_getaffinity(0))
    if most <= cores:
        return []
    text = f"{most} ranks were timed at once on {cores} cores, and slowed each other down; set devices.slots to {cores}"
    return [Warning(kind="crowded", summary=text)]
