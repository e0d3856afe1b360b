"""The GPUs that a machine without one can claim to have: what a program can ask about them."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Model = Literal["A100", "H100", "H200", "cuda"]
"""What a scenario may choose; `cuda` is for programs that ask for any GPU."""


class DeviceModel(NamedTuple):
    """One GPU, by its data sheet; sizes in bytes."""

    name: str
    capability: tuple[int, int]
    memory: int
    multiprocessors: int
    l2_cache: int
    shared_memory: int  # of a multiprocessor


_H100 = DeviceModel("NVIDIA H100 80GB HBM3", (9, 0), 80 * 1024**3, 132, 50 * 1024**2, 228 * 1024)

MODELS: Final[dict[str, DeviceModel]] = {
    "A100": DeviceModel("NVIDIA A100-SXM4-80GB", (8, 0), 80 * 1024**3, 108, 40 * 1024**2, 164 * 1024),
    "H100": _H100,
    # The memory is what torch 2.11 reports on one: less than the 141 GB of the data sheet would be with ECC's share.
    "H200": DeviceModel("NVIDIA H200", (9, 0), 150_109_880_320, 132, 60 * 1024**2, 228 * 1024),
    "cuda": _H100,
}
