"""What NVIDIA's management library tells of the GPUs of a host; it makes no CUDA context, so any process may ask."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

LIBRARY = "libnvidia-ml.so.1"
SM_CLOCK, TEMPERATURE_OF_GPU = 1, 0
NAME_LENGTH = 96

THROTTLED = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "thermal (software)",
    0x40: "thermal (hardware)",
    0x80: "power brake",
}
"""Reasons for a lower clock that slow a kernel down; idleness and clocks that somebody has set are none."""


class Clocks(NamedTuple):
    """The state of a GPU at one moment: MHz, watts, degrees Celsius, and why it runs slower than it could."""

    sm_mhz: int
    power_w: float
    temperature_c: int
    throttled: tuple[str, ...]


def count() -> int:
    """How many GPUs the host has; 0 where there is no driver."""
    number = ctypes.c_uint()
    library = _library()
    return number.value if library is not None and not library.nvmlDeviceGetCount_v2(ctypes.byref(number)) else 0


def visible(environment: Mapping[str, str]) -> list[int]:
    """The numbers of the GPUs that a process with these variables sees, in its order; -1 for one given by its name."""
    chosen = environment.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return list(range(count()))
    found: list[int] = []
    for item in filter(None, (part.strip() for part in chosen.split(","))):
        if item.startswith(("GPU-", "MIG-")) and count():
            found.append(-1)
        elif item.isdigit() and int(item) < count():
            found.append(int(item))
        else:
            break  # as CUDA does: what follows a wrong one is not seen
    return found


def sharing(processes: int, environment: Mapping[str, str]) -> int:
    """How many of so many processes with these variables have one GPU, if they are dealt out over those they see."""
    return -(-processes // max(len(visible(environment)), 1))


def name(gpu: int) -> str:
    """The model of a GPU."""
    handle, text = _handle(gpu), ctypes.create_string_buffer(NAME_LENGTH)
    library = _library()
    assert library is not None
    library.nvmlDeviceGetName(handle, text, NAME_LENGTH)
    return text.value.decode()


def clocks(gpu: int) -> Clocks | None:
    """The state of a GPU now; None if it cannot be asked."""
    library = _library()
    if library is None or not 0 <= gpu < count():
        return None
    handle = _handle(gpu)
    clock, power, degrees, reasons = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_uint(), ctypes.c_ulonglong()
    library.nvmlDeviceGetClockInfo(handle, SM_CLOCK, ctypes.byref(clock))
    library.nvmlDeviceGetPowerUsage(handle, ctypes.byref(power))
    library.nvmlDeviceGetTemperature(handle, TEMPERATURE_OF_GPU, ctypes.byref(degrees))
    library.nvmlDeviceGetCurrentClocksThrottleReasons(handle, ctypes.byref(reasons))
    told = tuple(text for bit, text in THROTTLED.items() if reasons.value & bit)
    return Clocks(clock.value, power.value / 1000, degrees.value, told)


def _handle(gpu: int) -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    library = _library()
    assert library is not None
    library.nvmlDeviceGetHandleByIndex_v2(gpu, ctypes.byref(handle))
    return handle


@functools.cache
def _library() -> Any:
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        return None
    return None if library.nvmlInit_v2() else library
