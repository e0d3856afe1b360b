"""Random numbers of DTensors: torch counts with the seed and offset of a CUDA state, which a CPU's state lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
import torch.distributed.tensor._dispatch as tensor_dispatch
import torch.distributed.tensor._random as tensor_random


class ShardedRandomness(tensor_random.OffsetBasedRNGTracker):
    """Draws shards so that different ones differ, replicas agree, and all ranks go on from one state."""

    def _distribute_region(self, spec: Any, generator: torch.Generator | None = None) -> Any:
        return _drawing(_shard(spec), generator) if self.distribute_region_enabled else nullcontext()

    def _compute_rng_offsets(self, spec: Any) -> tuple[int, int]:
        return _shard(spec), 0


def install() -> None:
    """Let DTensor make its tracker from this class, and run random operations by it."""
    for module, name, ours in (
        (tensor_random, "OffsetBasedRNGTracker", ShardedRandomness),
        (tensor_dispatch, "run_dtensor_rng_op", _run),  # torch before 2.13 has only the tracker
    ):
        setattr(module, name, ours)


def _run(shard: int, _: int, operation: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with _drawing(shard):
        return operation(*args, **kwargs)


@contextmanager
def _drawing(shard: int, generator: torch.Generator | None = None) -> Iterator[None]:
    """Let the default generator draw what is the shard's, and be one draw further afterwards."""
    source = generator or torch.default_generator
    seed = int(torch.randint(2**60, (), generator=source))  # the same on all ranks, whose states are the same
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed + shard)
        yield


def _shard(spec: Any) -> int:
    """The number of this rank's shard: its place in the mesh, without the dimensions that hold replicas."""
    number = 0
    for size, place, placement in zip(spec.mesh.shape, spec.mesh.get_coordinate(), spec.placements, strict=True):
        if placement.is_shard():
            number = number * size + place
    return number
