"""Which kind of device the ranks of a scenario run on: the one place that says what `devices.kind` comes to here."""

from __future__ import annotations

import functools
import importlib.util
import os
import runpy
from pathlib import Path
from typing import Literal

import msgspec

from prism.errors import RunError, ScenarioError
from prism.gpu.cuda import nvml
from prism.gpu.emulation.device.built import library_path
from prism.scenario import Scenario

Kind = Literal["cpu", "cuda"]


def device_kind(scenario: Scenario) -> Kind:
    """The kind of device that the stages of a scenario run on.

    `auto` is cuda where the host has a GPU, torch is built for CUDA, and the scenario asks for nothing that only a CPU
    can do, or that needs an extension which was not built; else cpu.
    """
    kind = scenario.devices.kind
    if kind == "auto":
        able = not _cpu_only(scenario) and not _lacks_the_engine(scenario)
        return "cuda" if gpus() and built_for_cuda() and able else "cpu"
    return kind


def check_device(scenario: Scenario) -> None:
    """Raise RunError if the device of a scenario is not there, ScenarioError if it cannot do what is asked of it."""
    if device_kind(scenario) == "cpu":
        return
    where = scenario.path or "scenario"
    if reason := _cpu_only(scenario):
        raise ScenarioError(f"{where}: $.devices.kind: {reason}; choose cpu for it")
    if not gpus():
        raise RunError("there is no device: devices.kind is cuda, and the host shows no NVIDIA GPU; choose cpu or auto")
    if not built_for_cuda():
        raise RunError("devices.kind is cuda, and the installed torch is not built for CUDA; install one that is")
    if _lacks_the_engine(scenario):
        raise RunError(
            "emulation and paced answers on a GPU need the extension prism.gpu._device, which was not built; run "
            "`make ext` where nvcc, of the CUDA toolkit, is found, or choose devices.kind cpu"
        )


def told(scenario: Scenario) -> str:
    """The devices in words; "" for a CPU, which is what everybody expects."""
    if device_kind(scenario) == "cpu":
        return ""
    names = sorted({nvml.name(max(gpu, 0)) for gpu in nvml.visible(os.environ)})
    return f"on {gpus()} x {', '.join(names)}"


def timed_apart(scenario: Scenario) -> Scenario:
    """The scenario with slices that do not share a device: where ranks compute on one together, none is timed right."""
    if device_kind(scenario) == "cpu" or scenario.calibrate.slice != "auto":
        return scenario
    calibrate = msgspec.structs.replace(scenario.calibrate, slice=1)
    return msgspec.structs.replace(scenario, calibrate=calibrate)


def gpus() -> int:
    """How many GPUs ranks would see."""
    return len(nvml.visible(os.environ))


@functools.cache
def built_for_cuda() -> bool:
    """Whether the torch that ranks import is built for CUDA; it is not imported for that."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        return False
    version = Path(found.origin).with_name("version.py")
    return bool(version.is_file() and runpy.run_path(str(version)).get("cuda"))


def _lacks_the_engine(scenario: Scenario) -> bool:
    """Whether the scenario has ranks in a sandbox, and what that needs on a GPU was not built."""
    return _has_a_sandbox(scenario) and library_path() is None


def _has_a_sandbox(scenario: Scenario) -> bool:
    """Whether ranks run among virtual ones, in an emulation or to be timed."""
    paced = "calibrate" in scenario.stages and scenario.calibrate.answers == "paced"
    return paced or "emulate" in scenario.stages


def _cpu_only(scenario: Scenario) -> str:
    """What of a scenario is not available on a GPU, in words; "" for nothing."""
    if scenario.devices.present_as is not None:
        return f"a CPU is presented as {scenario.devices.present_as}, which a GPU needs not be"
    if scenario.launcher.workers > 1:
        return "several workers are not available on a GPU yet"
    if _has_a_sandbox(scenario) and scenario.network.algorithm != "ring":
        return f"network.algorithm {scenario.network.algorithm} is not emulated on a GPU yet, only ring is"
    if (
        "emulate" in scenario.stages
        and scenario.emulate.contribution == "replicas"
        and len(scenario.emulate.sandbox) > 1
    ):
        return "emulate.contribution replicas is available on a GPU for one sandbox rank only"
    return ""
