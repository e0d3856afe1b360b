"""Results that are made up: finite, of the right shape, and from the rank's own input where that fits."""

from __future__ import annotations

import pytest
import torch

from prism.core.calls import Call
from prism.core.graph import OpKind
from prism.gpu.group.synthesis import synthesise

GARBAGE = float("nan")


def made_up(
    kind: OpKind, inputs: list[torch.Tensor], *shapes: tuple[int, ...], member: int = 1, **fields: object
) -> list[torch.Tensor]:
    outputs = [torch.full(shape, GARBAGE) for shape in shapes]
    synthesise(Call(kind, "float32", **fields), member, inputs, outputs)
    return outputs


@pytest.mark.parametrize("kind", [OpKind.ALL_REDUCE, OpKind.REDUCE])
def test_a_sum_is_the_own_input(kind: OpKind) -> None:
    data = torch.tensor([1.0, 2.0])
    synthesise(Call(kind, "float32", 2), 1, [data], [data])
    assert data.tolist() == [1, 2]


@pytest.mark.parametrize("kind", [OpKind.ALL_GATHER, OpKind.GATHER])
def test_gathered_blocks_are_the_own_one(kind: OpKind) -> None:
    own = torch.tensor([[1.0, 2.0]])
    assert [out.tolist() for out in made_up(kind, [own], (2,), (1, 2))] == [[1, 2], [[1, 2]]]
    assert [out.tolist() for out in made_up(kind, [own], (3, 2))] == [[[1, 2]] * 3]
    uneven = made_up(kind, [own], (1,), (0,), (3,))
    assert [out.tolist() for out in uneven] == [[1], [], [1, 2, 1]]


def test_a_shard_of_a_sum_is_the_own_shard_of_the_input() -> None:
    own = torch.arange(6.0)
    (out,) = made_up(OpKind.REDUCE_SCATTER, [own], (3,), send=(2, 3, 1))
    assert out.tolist() == [2, 3, 4]
    (out,) = made_up(OpKind.REDUCE_SCATTER, list(own.split([2, 3, 1])), (1, 3), send=(2, 3, 1))
    assert out.tolist() == [[2, 3, 4]]


@pytest.mark.parametrize("kind", [OpKind.BROADCAST, OpKind.SCATTER, OpKind.ALL_TO_ALL, OpKind.SEND_RECV])
def test_what_came_from_others_is_zero(kind: OpKind) -> None:
    assert [out.tolist() for out in made_up(kind, [torch.ones(4)], (2,), (1, 2))] == [[0, 0], [[0, 0]]]


def test_a_rank_that_gives_nothing_gets_zeros() -> None:
    assert [out.tolist() for out in made_up(OpKind.ALL_GATHER, [torch.empty(0)], (2,))] == [[0, 0]]


def test_outputs_may_have_gaps_and_need_gradients() -> None:
    whole = torch.full((2, 4), GARBAGE, requires_grad=True)
    synthesise(Call(OpKind.ALL_GATHER, "float32"), 0, [torch.tensor([1.0, 2.0])], [whole.detach()[:, ::2]])
    assert whole[:, ::2].tolist() == [[1, 2], [1, 2]]
    assert whole[:, 1::2].isnan().all()
    leaf = torch.full((2,), GARBAGE, requires_grad=True)
    synthesise(Call(OpKind.BROADCAST, "float32"), 0, [], [leaf])
    assert leaf.tolist() == [0, 0]
