"""What a member's tensors have to be like: refused where the program calls, as backends do."""

from __future__ import annotations

import pytest
import torch

from prism.core.graph import OpKind
from prism.gpu.group.fitting import refuse_irreducible, refuse_misfit, refuse_sparse

GATHER, SCATTER = OpKind.ALL_GATHER, OpKind.REDUCE_SCATTER


def some(count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(count, dtype=dtype)


@pytest.mark.parametrize(
    ("kind", "inputs", "outputs", "told"),
    [
        (GATHER, [some(2)], [some(4, torch.int32)], "one dtype, got torch.float32 and torch.int32"),
        (SCATTER, [some(4)], [some(2, torch.float64)], "one dtype"),
        (OpKind.SCATTER, [some(2, torch.int32)] * 2, [some(2)], "one dtype"),
        (GATHER, [some(2)], [some(5)], "the output must have 2 times the 2 elements of the input, got 5"),
        (GATHER, [some(2)], [some(3)], "got 3"),
        (SCATTER, [some(4)], [some(3)], "the input must have 2 times the 3 elements of the output, got 4"),
        (SCATTER, [some(6)], [some(2)], "got 6"),
        (SCATTER, [some(2), some(3)], [some(2)], "the output must have the 3 elements of input 1, got 2"),
    ],
)
def test_what_does_not_fit_is_refused(
    kind: OpKind, inputs: list[torch.Tensor], outputs: list[torch.Tensor], told: str
) -> None:
    with pytest.raises(RuntimeError, match=told):
        refuse_misfit("gloo", kind, inputs, outputs, rank=1, size=2)
    with pytest.raises(TypeError if "dtype" in told else ValueError, match=told):
        refuse_misfit("nccl", kind, inputs, outputs, rank=1, size=2)


@pytest.mark.parametrize(
    ("kind", "inputs", "outputs"),
    [
        (GATHER, [some(2)], [some(4)]),
        (GATHER, [some(2)], [some(2), some(3)]),  # of members that bring unequal numbers
        (SCATTER, [some(4)], [some(2)]),
        (SCATTER, [some(2), some(3)], [some(3)]),
        (OpKind.BROADCAST, [], [some(3)]),
        (OpKind.ALL_REDUCE, [some(3)], [some(3)]),
        (GATHER, [some(0)], [some(0)]),
    ],
)
def test_what_fits_passes(kind: OpKind, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
    refuse_misfit("gloo", kind, inputs, outputs, rank=1, size=2)


@pytest.mark.parametrize(
    ("reduce", "dtype"),
    [
        ("band", torch.float32),
        ("sum", torch.uint16),
        ("max", torch.complex64),
        ("bxor", torch.bfloat16),
        ("sum", torch.float8_e5m2),
    ],
)
def test_a_type_that_cannot_be_reduced_so_is_refused(reduce: str, dtype: torch.dtype) -> None:
    with pytest.raises(RuntimeError, match=f"all_reduce: cannot use {reduce} with"):
        refuse_irreducible(OpKind.ALL_REDUCE, reduce, [some(1, dtype)])


def test_types_that_can_be_and_what_is_no_reduction_pass() -> None:
    refuse_irreducible(OpKind.ALL_REDUCE, "band", [some(1, torch.bool)])
    refuse_irreducible(OpKind.ALL_REDUCE, "sum", [some(1, torch.complex64)])
    refuse_irreducible(OpKind.ALL_GATHER, "", [some(1, torch.uint16)])


def test_sparse_tensors_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="all_reduce of sparse tensors is not available"):
        refuse_sparse(OpKind.ALL_REDUCE, [torch.zeros(3).to_sparse()])
    refuse_sparse(OpKind.ALL_REDUCE, [torch.zeros(3)])
