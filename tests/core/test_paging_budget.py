"""Whether ranks that do not fit on a device together come to their ends within a budget of host memory: sums on paper.

The sizes are those of `python -m benchmarks.gpu_pressure` on one H200, in MiB.
"""

from __future__ import annotations

import random

import pytest

from prism.core.stage import residency
from prism.core.stage.admission import HostMemory
from tests.core.actors import Stage
from tests.core.sharing_device import Device

GIB = 1024
MIB = 1 << 20
DEVICE = 143_771
CONTEXT = 686
SPARE = residency.SPARE // MIB
RANKS, SLOTS = 8, 1
STEP = [12_595, 12_595, 0, 0, 0, 0]
"""What a rank of 24.6 GiB takes before each all_reduce: weights and gradients, both moments, then nothing more."""
WHOLE = sum(STEP)


@pytest.fixture(autouse=True)
def in_mib(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes are in MiB here, that of what is left free too."""
    monkeypatch.setattr(residency, "SPARE", SPARE)
    monkeypatch.setattr("tests.core.sharing_device.SPARE", SPARE)


def turns(host: int, disk: bool, seed: int) -> Device:
    """Eight ranks of 24.6 GiB that take turns in one slot, and copies of whom have so much host memory."""
    stage = Stage(RANKS, slots=SLOTS, memory=HostMemory(pages_spill=disk))
    device = Device(DEVICE - RANKS * CONTEXT, stage, random.Random(seed), host=host)
    device.run([STEP] * RANKS)
    return device


@pytest.mark.parametrize("seed", range(8))
def test_host_memory_holds_who_is_away_and_one_more(seed: int) -> None:
    device = turns(108 * GIB, False, seed)
    world = device.stage.world
    assert (world.diagnosis, world.broke) == (None, "")
    assert RANKS * WHOLE > DEVICE
    assert device.most_copied == 4 * WHOLE, "three that do not fit, and the one that leaves for another"
    moves = world.pager.residency.count
    assert moves.spilled.out.count == 0
    assert moves.paged.out.count <= len(STEP) * (RANKS - DEVICE // WHOLE + 1), "who is needed last leaves"


@pytest.mark.parametrize("seed", range(8))
def test_with_less_of_it_the_coldest_goes_to_disk(seed: int) -> None:
    device = turns(94 * GIB, True, seed)
    world = device.stage.world
    assert (world.diagnosis, world.broke) == (None, "")
    assert device.most_copied <= 94 * GIB
    assert world.pager.residency.count.spilled.back.count > 0


def test_with_less_of_it_and_no_disk_the_run_ends() -> None:
    device = turns(94 * GIB, False, 0)
    assert device.stage.world.broke == (
        "host memory is full; raise devices.host_memory, or set devices.spill to a folder on a disk"
    )


@pytest.mark.parametrize("seed", range(8))
def test_sixteen_ranks_with_host_memory_for_six_use_the_disk(seed: int) -> None:
    room = 2_662  # four ranks, beside what is left free
    stage = Stage(16, slots=2, memory=HostMemory(pages_spill=True))
    device = Device(SPARE + room, stage, random.Random(seed), host=3_600)
    device.run([[320, 256]] * 16)
    assert (stage.world.diagnosis, stage.world.broke) == (None, "")
    assert device.most_copied <= 3_600
    back = stage.world.pager.residency.count.spilled.back.count
    assert 16 - 4 - 6 <= back <= 16 - 4, "those that fit nowhere else, and some that make room for others"


@pytest.mark.parametrize("steps", [[344, 768], [344, 256, 512], [128, 216, 768]])
@pytest.mark.parametrize("room", [1_000, 1_900, 2_662, 4_000])
def test_ranks_with_larger_steps_use_it_too(steps: list[int], room: int) -> None:
    for seed in range(6):
        for slots in (1, 2, 3):
            stage = Stage(16, slots=slots, memory=HostMemory(pages_spill=True))
            device = Device(SPARE + room, stage, random.Random(seed), host=3_600)
            device.run([list(steps)] * 16)
            assert (stage.world.diagnosis, stage.world.broke) == (None, ""), f"{slots} slots, seed {seed}"
            assert device.most_copied <= 3_600
