"""What a sandbox member moves is what the algorithm of N ranks moves: the steps and bytes of the network model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from prism.core.graph import OpKind
from prism.core.timeline.network import TRAFFIC

pytest.importorskip("prism.gpu.pruned", exc_type=ImportError)
from prism.gpu.pruned import Op, arcs
from prism.gpu.pruned.plans import arc_plan, plan
from tests.nccl.cast import Cast

SIZES = [2, 3, 8, 100, 1024, 8192]
EACH = 4  # float32 elements of a block: 16 bytes, so that blocks are chunks


def model(kind: OpKind, size: int, nbytes: int) -> tuple[int, int]:
    """Steps and bytes of the busiest member."""
    steps, moved = TRAFFIC[kind](np.array([size]), np.array([nbytes]))
    return int(steps[0]), int(moved[0])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("real", [1, 2, 3])
def test_rings_take_the_steps_and_bytes_of_the_model(tmp_path: Path, size: int, real: int) -> None:
    sandbox = sorted({size // 2, 0, size - 1} if real == 3 else {size // 2, 0} if real == 2 else {size // 2})
    everything, block = torch.ones(size * EACH), torch.ones(EACH)
    cast = Cast(tmp_path, size, sandbox)
    for kind, count, given, got in (
        (OpKind.ALL_REDUCE, size * EACH, everything, everything),
        (OpKind.REDUCE_SCATTER, size * EACH, everything, block),
        (OpKind.ALL_GATHER, EACH, block, everything),
    ):
        op = Op(kind, size, "float32", "sum", count=count)
        moved = cast.run(op, {r: given.clone() for r in sandbox}, {r: got.clone() for r in sandbox})
        steps, nbytes = model(kind, size, count * 4)
        assert all(tuple(moved[rank]) == (steps, nbytes, nbytes) for rank in sandbox), kind


@pytest.mark.parametrize("size", SIZES)
def test_exchanges_in_pairs_take_those_of_the_model(tmp_path: Path, size: int) -> None:
    sandbox, root = [0, size - 1], size - 1
    everything, block = torch.ones(size * EACH), torch.ones(EACH)
    cast = Cast(tmp_path, size, sandbox)

    def run(kind: OpKind, count: int, given: torch.Tensor, got: torch.Tensor) -> tuple[int, int, int]:
        op = Op(kind, size, "float32", root=root, count=count)
        return tuple(cast.run(op, {r: given.clone() for r in sandbox}, {r: got.clone() for r in sandbox})[root])

    steps, nbytes = model(OpKind.ALL_TO_ALL, size, (size - 1) * EACH * 4)
    assert run(OpKind.ALL_TO_ALL, size * EACH, everything, everything) == (steps, nbytes, nbytes)
    steps, nbytes = model(OpKind.GATHER, size, EACH * 4)
    assert run(OpKind.GATHER, EACH, block, everything) == (steps, 0, nbytes)
    steps, nbytes = model(OpKind.SCATTER, size, size * EACH * 4)
    assert run(OpKind.SCATTER, EACH, everything, block) == (steps, nbytes, 0)


@pytest.mark.parametrize("size", SIZES)
def test_a_chain_passes_everything_once(tmp_path: Path, size: int) -> None:
    sandbox = [0, size - 1]
    cast, tensors = Cast(tmp_path, size, sandbox), {r: torch.ones(1000) for r in (0, size - 1)}
    for kind, sends, receives in ((OpKind.BROADCAST, 0, size - 1), (OpKind.REDUCE, 0, size - 1)):
        root = sends if kind is OpKind.BROADCAST else receives
        moved = cast.run(Op(kind, size, "float32", "sum", root, count=1000), tensors, tensors)
        assert moved[sends].sent_bytes == 4000
        assert moved[receives].received_bytes == 4000
        assert moved[sends].received_bytes == moved[receives].sent_bytes == 0


@pytest.mark.parametrize("size", SIZES)
def test_a_barrier_counts_as_the_model_does(tmp_path: Path, size: int) -> None:
    moved = Cast(tmp_path, size, [0]).run(Op(OpKind.BARRIER, size), {}, {})
    assert moved[0].steps == model(OpKind.BARRIER, size, 0)[0]


def test_plans_say_where_a_step_comes_from() -> None:
    op = Op(OpKind.ALL_REDUCE, 4, "float32", "sum", count=16)
    own = plan(op, 1)
    assert [(step.receive, step.reduce, step.store, step.send) for step in own] == [
        (False, False, False, True), (True, True, False, True), (True, True, False, True), (True, True, True, True),
        (True, False, True, True), (True, False, True, True), (True, False, True, False),
    ]  # fmt: skip
    assert [step.first // 4 for step in own] == [0, 3, 2, 1, 0, 3, 2]
    assert arcs(4, (1, 2)) == {2: (3, 0)}
    sent = arc_plan(op, (1, 2), 2)
    assert [step.owner for step in sent] == [3, 2, 1, 0, 3, 2]
    assert [(step.delayed, step.adders) for step in sent] == [
        (False, 1), (False, 2), (True, 2), (True, 2), (True, 1), (True, 0),
    ]  # fmt: skip
    assert [step.complete for step in sent] == [False, False, False, True, True, False]
