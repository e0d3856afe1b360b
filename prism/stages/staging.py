"""What a stage needs before it can begin, from the scenario's words to the workers'."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from prism.core.contribution import REDUCING
from prism.core.diagnosis import Warning
from prism.core.stage.admission import HostMemory
from prism.core.stage.kept import Kept, PayloadCount
from prism.errors import RunError
from prism.folder import Folder
from prism.gpu.cuda import mps, nvml, residency_abi
from prism.gpu.emulation.device import built
from prism.net.messages import Emulating, Misfortune, Program, Setup
from prism.net.scratch import lies_in_memory
from prism.result import DeviceClocks
from prism.scenario import STAGES, Fault, Scenario
from prism.stages.kinds import device_kind, gpus

QUEUES, CAPTURED, SHARED = "CUDA_DEVICE_MAX_CONNECTIONS", 2, 32
"""Hardware queues of a process: CUDA takes 8 where nothing is said, and a GPU has room for 100 such processes at most.
One that takes turns with others needs few; in stages that are timed it has as many as it would have. Under NVIDIA's MPS
sandbox ranks need many, or what one computes stands behind a kernel that waits for the other."""


def stage_setup(scenario: Scenario, folder: Folder, stage: str, iterations: int) -> Setup:
    """What workers and ranks need to know of a stage; ranks end after so many iterations, with 0 when they like."""
    program = scenario.program
    return Setup(
        program=Program(
            script=str(scenario.script.resolve()) if scenario.script else "",
            module=program.module or "",
            args=program.args,
            env=program.env if device_kind(scenario) == "cpu" else _on_gpu(program.env, stage),
            preload=program.preload,
            marker=scenario.iteration.marker,
        ),
        world_size=scenario.world.size,
        running=len(scenario.fold.shape.representatives) if scenario.fold is not None else scenario.world.size,
        ranks_per_node=scenario.world.ranks_per_node,
        semantics=scenario.semantics,
        device=device_kind(scenario),
        present_as=scenario.devices.present_as or "",
        payloads=str(folder.payloads.resolve()),
        logs=str(folder.logs.resolve()),
        folder=str(Path.cwd()),
        iterations=iterations,
        stage=stage,
        answered=stage == "calibrate",
        folded=scenario.fold is not None,
        kept=_looked_at(scenario, stage),
        faults=tuple(_misfortune(fault) for fault in scenario.faults),
        memory=scenario.devices.memory or 0,
        host_memory=(scenario.devices.host_memory or 0) if stage == "capture" else 0,
        spill=spill_folder(scenario) if stage == "capture" else "",
    )


def _on_gpu(environment: Mapping[str, str], stage: str) -> dict[str, str]:
    """The environment of a program that runs on a GPU in a stage, which may be beside many others."""
    given = _with(environment, residency_abi.library_path())
    if stage == "capture" and QUEUES not in os.environ:
        given.setdefault(QUEUES, str(CAPTURED))
    return given


def _in_sandbox(scenario: Scenario) -> dict[str, str]:
    """The environment of sandbox ranks on GPUs, which may share one."""
    given, ranks = _with(scenario.program.env, built.library_path()), scenario.emulate.sandbox
    around = {**os.environ, **given}
    if nvml.sharing(len(ranks), around) < 2 or not mps.serves(around):
        return given
    if not _are_many(around.get(QUEUES, str(SHARED))):
        raise RunError(
            f"$.emulate.sandbox: some of {len(ranks)} ranks would share a GPU through NVIDIA's MPS, where with few "
            f"hardware queues they wait for each other for ever; leave {QUEUES} out of the environment and of "
            f"$.program.env, or set it to {SHARED}"
        )
    return {**given, QUEUES: around.get(QUEUES, str(SHARED))}


def _are_many(queues: str) -> bool:
    return queues.isdecimal() and int(queues) >= SHARED


def _with(environment: Mapping[str, str], library: Path | None) -> dict[str, str]:
    """The environment of a program on a GPU, with a library preloaded; as it is where that is not built."""
    others = environment.get("LD_PRELOAD", os.environ.get("LD_PRELOAD", ""))
    preloaded = {} if library is None else {"LD_PRELOAD": f"{library}:{others}" if others else str(library)}
    return {**environment, **preloaded}


def spill_folder(scenario: Scenario) -> str:
    """The folder for what host memory cannot hold, "" for none; raises RunError where nothing can be spilled to it."""
    if scenario.devices.spill is None:
        return ""
    folder = (scenario.base / scenario.devices.spill).resolve()
    if folder.exists() and not folder.is_dir():
        raise RunError(f"$.devices.spill: {folder} is no folder; name one on a disk")
    if not folder.is_dir():
        raise RunError(f"$.devices.spill: {folder} is not there; make it, on a disk")
    if lies_in_memory(folder):
        raise RunError(f"$.devices.spill: {folder} lies in memory itself; name a folder on a disk")
    return str(folder)


def host_memory(scenario: Scenario) -> HostMemory:
    """What the ranks of a capture may hold of the host's memory; on a GPU the bound is on copies of its memory."""
    if device_kind(scenario) != "cpu":
        return HostMemory(pages_spill=scenario.devices.spill is not None)
    return HostMemory(bound=scenario.devices.host_memory or 0, spills=scenario.devices.spill is not None)


def emulation_setup(
    scenario: Scenario, folder: Folder, room: Path, held: Mapping[str, int], recorded: bool, attach: bool
) -> Setup:
    """The same for an emulation, whose processes share the directory `room`; `held`: see Emulating."""
    emulate = scenario.emulate
    setup = stage_setup(scenario, folder, "emulate", emulate.iterations or scenario.capture.iterations or 0)
    program = setup.program
    if setup.device == "cuda":  # memory is not paged: sandbox ranks do not take turns
        program = msgspec.structs.replace(program, env=_in_sandbox(scenario))
    if emulate.program is not None:
        script = str((scenario.base / emulate.program).resolve())
        program = msgspec.structs.replace(program, script=script, module="")
    if setup.device != "cuda" and emulate.arc_device is not None:
        raise RunError("$.emulate.arc_device: these ranks use no GPU; leave it null, or choose devices.kind: cuda")
    shared = Emulating(
        directory=str(room),
        sandbox=tuple(sorted(emulate.sandbox)),
        pool=emulate.pool,
        recorded=recorded,
        attach=attach,
        apart=scenario.network.algorithm == "ring" and emulate.contribution != "replicas",
        held=dict(held),
        arc_device=-1 if emulate.arc_device is None else emulate.arc_device,
    )
    return msgspec.structs.replace(setup, program=program, emulation=shared)


def with_sandbox(scenario: Scenario, sandbox: Sequence[int] | None) -> Scenario:
    """The scenario with other sandbox ranks, None keeps its own; raises ScenarioError on a rank that is not there."""
    if sandbox is None:
        return scenario
    emulate = msgspec.structs.replace(scenario.emulate, sandbox=tuple(sandbox))
    stages = tuple(stage for stage in STAGES if stage in (*scenario.stages, "emulate"))
    return msgspec.structs.replace(scenario, emulate=emulate, stages=stages)


def paced(scenario: Scenario, ranks: Sequence[int], iterations: int) -> Scenario:
    """The scenario with a slice in the sandbox, to be timed there for as many iterations as in `fast`; 0 for all.

    What the others put in does not matter. Where ranks run is decided already, by what the scenario itself asks for.
    """
    devices = msgspec.structs.replace(scenario.devices, kind=device_kind(scenario))
    emulate = msgspec.structs.replace(
        scenario.emulate,
        sandbox=tuple(ranks),
        contribution="zeros",
        iterations=iterations or None,
        program=None,
    )
    return msgspec.structs.replace(scenario, devices=devices, emulate=emulate)


def kept(scenario: Scenario) -> Kept:
    """What the record of a capture has to keep; for an emulation that the file names too, though it may run later."""
    return _kept(scenario, emulated="emulate" in (*scenario.stages, *scenario.planned))


def needed(scenario: Scenario) -> Kept:
    """What the stages that are chosen need of a record."""
    return _kept(scenario, emulated="emulate" in scenario.stages)


def _kept(scenario: Scenario, emulated: bool) -> Kept:
    payloads, emulate = scenario.capture.payloads, scenario.emulate
    if not emulated or emulate.contribution not in REDUCING:
        return Kept(payloads=payloads)
    return Kept(payloads=payloads, sandbox=tuple(sorted(emulate.sandbox)), contribution=emulate.contribution)


def _looked_at(scenario: Scenario, stage: str) -> Kept:
    """What ranks of a stage take from the record, or leave in it.

    A GPU that is timed gets no large results, also where they are kept: while streams are parked for gigabytes of them,
    a program that allocates memory or loads a kernel waits for the device, and so for ever.
    """
    whole = kept(scenario)
    if stage == "calibrate" and device_kind(scenario) == "cuda" and whole.payloads == "all":
        return msgspec.structs.replace(whole, payloads="control")
    return whole


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
    if scenario.devices.host_memory is not None and importlib.util.find_spec("prism.gpu._spill") is None:
        raise RunError(
            "$.devices.host_memory: a bound needs the extension prism.gpu._spill, which is not built; build it with "
            "`pip install --no-build-isolation -e .` and a C++20 compiler, or leave the bound null"
        )
    on_cpu = device_kind(scenario) == "cpu"  # on a GPU torch's own allocator holds them
    if on_cpu and scenario.devices.memory is not None and importlib.util.find_spec("prism.gpu._allocator") is None:
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


def calibration_warnings(
    scenario: Scenario, slices: Sequence[Sequence[int]], count: PayloadCount | None, clocks: Sequence[DeviceClocks]
) -> list[Warning]:
    """What makes the durations of slices, or what else came of timing them, less than true."""
    made_up = synthesised(count, scenario.capture.payloads)
    return [*crowded(slices, device_kind(scenario)), *made_up, *throttled(clocks)]


def crowded(slices: Sequence[Sequence[int]], device: str = "cpu") -> list[Warning]:
    """A warning if more ranks are timed at once than there are cores, or GPUs."""
    most = max(len(ranks) for ranks in slices)
    room, what, fix = len(os.sched_getaffinity(0)), "cores", "devices.slots"
    if device == "cuda":
        room, what, fix = gpus(), "GPUs", "calibrate.slice"
    if most <= room:
        return []
    text = f"{most} ranks were timed at once on {room} {what}, and slowed each other down; set {fix} to {room}"
    return [Warning(kind="crowded", summary=text)]


def throttled(clocks: Sequence[DeviceClocks]) -> list[Warning]:
    """A warning if GPUs slowed themselves down while ranks were timed: their durations are too long."""
    slowed = [one for one in clocks if one.throttled]
    if not slowed:
        return []
    reasons = ", ".join(sorted({reason for one in slowed for reason in one.throttled}))
    text = f"the GPU ran slower than it can ({reasons}) while ranks were timed; cool it, or measure them again"
    return [Warning(kind="throttled", summary=text, ranks=[one.rank for one in slowed])]


def synthesised(count: PayloadCount | None, payloads: str) -> list[Warning]:
    """A warning if results were made up because the record does not hold them."""
    if count is None or not count.synthesised_ops:
        return []
    text = (
        f"capture.payloads is {payloads}, so the results of {count.synthesised_ops} operations were made up: losses "
        "and other numbers in the logs of calibration are not real"
    )
    return [Warning(kind="synthesised", summary=text)]
