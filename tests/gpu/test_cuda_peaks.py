"""Laps of device memory: each is the most since the one before, and the program reads what it would without them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prism.gpu.cuda.meter import CudaMeter
from tests.gpu.fake_allocator import FakeAllocator, install

MIB = 1 << 20
Action = tuple[str, int, int, int]
"""What a program does, on which device, with how many bytes, and how many laps end then."""
RESETS: dict[str, Callable[[int], Any]] = {
    "reset": lambda device: torch.cuda.reset_peak_memory_stats(device),
    "reset as accelerator": lambda device: torch._C._accelerator_resetPeakStats(device),
    "reset sums": lambda device: torch.cuda.reset_accumulated_memory_stats(device),
}
ACTIONS = ["take", "take", "give", "take privately", "release privately", *RESETS]


@pytest.fixture
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture
def allocator(patch: pytest.MonkeyPatch) -> FakeAllocator:
    allocator = FakeAllocator()
    install(allocator, patch)
    return allocator


def seen() -> list[Any]:
    """What a program can see of its peaks."""
    return [(torch.cuda.memory_stats(device), torch._C._accelerator_getDeviceStats(device)) for device in range(2)]


def run(actions: list[Action], patch: pytest.MonkeyPatch, lapped: bool) -> tuple[list[Any], list[int]]:
    """What a program sees after each thing that it does, and the laps that end then."""
    allocator = FakeAllocator()
    install(allocator, patch)
    meter = CudaMeter(Path("unused")) if lapped else None
    views, laps = [], []
    for action, device, nbytes, ends in actions:
        match action:
            case "take":
                allocator.take(device, nbytes)
            case "give":
                allocator.give(device)
            case "take privately":
                allocator.take_privately(device, nbytes)
            case "release privately":
                allocator.release_privately(device)
            case _:
                RESETS[action](device)
        if meter is not None:
            laps += [meter.lap() or 0 for _ in range(ends)]
        views.append(seen())
    return [*views, *map(torch.cuda.memory_summary, range(2))], laps


@given(
    st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 1),
                       st.integers(1, 3 * MIB), st.integers(0, 2)), max_size=12)
)  # fmt: skip
def test_whatever_a_program_does_laps_change_nothing_that_it_sees(actions: list[Action]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        plain, _ = run(actions, patch, lapped=False)
    with pytest.MonkeyPatch.context() as patch:
        lapped, laps = run(actions, patch, lapped=True)
    assert lapped == plain
    assert laps == expected_laps(actions)


def expected_laps(actions: list[Action]) -> list[int]:
    """The most rounded bytes that any device held from lap to lap."""
    blocks: list[list[int]] = [[], []]
    most, laps = 0, []
    for action, device, nbytes, ends in actions:
        if action == "take":
            blocks[device].append(-(-nbytes // 512) * 512)
        elif action == "give":
            del blocks[device][:1]
        for _ in range(ends):
            laps.append(max(most, *map(sum, blocks)))
            most = 0
        most = max(most, *map(sum, blocks))
    return laps


def test_a_reset_of_the_program_leaves_the_lap_and_the_peaks_of_the_run(allocator: FakeAllocator) -> None:
    meter = CudaMeter(Path("unused"))
    allocator.take(0, 3 * MIB)
    allocator.give(0)
    allocator.release(0)
    torch.cuda.reset_peak_memory_stats(0)
    allocator.take(0, MIB)
    assert torch.cuda.memory_stats(0)["allocated_bytes.all.peak"] == MIB
    assert [meter.lap(), meter.lap()] == [3 * MIB, MIB]
    assert (meter.peak_bytes, meter.reserved_bytes) == (3 * MIB, 4 * MIB)


def test_peaks_of_the_run_are_those_of_the_device_that_has_most(allocator: FakeAllocator) -> None:
    meter = CudaMeter(Path("unused"))
    allocator.take(0, MIB)
    allocator.take(1, 3 * MIB)
    meter.lap()
    allocator.give(1)
    meter.lap()
    assert (meter.peak_bytes, meter.reserved_bytes) == (3 * MIB, 4 * MIB)


def test_devices_without_a_context_are_not_asked(allocator: FakeAllocator, patch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def ask(device: int) -> dict[str, Any]:
        asked.append(device)
        return allocator.stats(device)

    patch.setattr(torch._C, "_cuda_memoryStats", ask)
    meter = CudaMeter(Path("unused"))
    allocator.take(1, MIB)
    assert meter.lap() == MIB
    assert asked == [1]


def test_before_the_program_uses_a_device_nothing_is_held(allocator: FakeAllocator, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(torch.cuda, "is_initialized", lambda: False)
    patch.setattr(torch.cuda, "device_count", lambda: pytest.fail("no driver is asked before the program asks it"))
    meter = CudaMeter(Path("unused"))
    assert (meter.lap(), meter.peak_bytes, meter.reserved_bytes) == (0, 0, 0)


def test_an_allocator_of_the_programs_own_is_not_asked_for_what_it_does_not_count(patch: pytest.MonkeyPatch) -> None:
    def refuse(device: int) -> dict[str, Any]:
        raise RuntimeError("CUDAPluggableAllocator does not yet support getDeviceStats.")

    allocator = FakeAllocator()
    install(allocator, patch, backend="pluggable")
    patch.setattr(torch._C, "_cuda_memoryStats", refuse)
    allocator.take(0, MIB)
    meter = CudaMeter(Path("unused"))
    assert (meter.lap(), meter.peak_bytes, meter.reserved_bytes, meter.snapshot()) == (None, None, None, "")


def test_a_thread_that_reads_while_another_laps_sees_the_peak(allocator: FakeAllocator) -> None:
    told: list[int] = []
    reader = threading.Thread(target=lambda: told.append(torch.cuda.max_memory_allocated(0)))
    meter = CudaMeter(Path("unused"))
    allocator.take(0, MIB)
    allocator.give(0)

    def read() -> None:
        allocator.on_reset = lambda: None
        reader.start()
        reader.join(0.1)  # in vain: it has to wait for the lap

    allocator.on_reset = read
    meter.lap()
    reader.join()
    assert told == [MIB]


def test_what_torch_refuses_it_refuses_still(allocator: FakeAllocator) -> None:
    CudaMeter(Path("unused"))
    replaced: list[Callable[..., Any]] = [torch._C._cuda_memoryStats, torch._C._cuda_resetPeakMemoryStats]
    for function in replaced:
        with pytest.raises(IndexError):
            function(7)
        with pytest.raises(TypeError):
            function()
