"""What backends demand of one member's tensors: that they fit each other, and that their type can be reduced so.

It is raised where the program calls, as backends do: RuntimeError by gloo, TypeError and ValueError by torch's NCCL.
"""

from __future__ import annotations

import torch

from prism.core.graph import OpKind
from prism.gpu.group.arguments import Tensors, count_of

INTEGRAL = frozenset((torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool))
UNSIGNED = frozenset((torch.uint16, torch.uint32, torch.uint64))
BITWISE = frozenset(("band", "bor", "bxor"))
ORDERED = frozenset(("min", "max"))


def refuse_misfit(backend: str, kind: OpKind, inputs: Tensors, outputs: Tensors, rank: int, size: int) -> None:
    """Raise where inputs and outputs differ in type, or hold other numbers of elements than the collective moves."""
    kinds = {tensor.dtype for tensor in (*inputs, *outputs)}
    if inputs and outputs and len(kinds) > 1:
        text = (
            f"{kind.name.lower()}: inputs and outputs must have one dtype, got {' and '.join(sorted(map(str, kinds)))}"
        )
        raise (TypeError if backend == "nccl" else RuntimeError)(text)
    given, got = count_of(inputs), count_of(outputs)
    if kind is OpKind.ALL_GATHER and len(outputs) == 1 and got != given * size:
        told = f"the output must have {size} times the {given} elements of the input, got {got}"
    elif kind is OpKind.REDUCE_SCATTER and len(inputs) == 1 and given != got * size:
        told = f"the input must have {size} times the {got} elements of the output, got {given}"
    elif kind is OpKind.REDUCE_SCATTER and len(inputs) == size and inputs[rank].numel() != got:
        told = f"the output must have the {inputs[rank].numel()} elements of input {rank}, got {got}"
    else:
        return
    raise (ValueError if backend == "nccl" else RuntimeError)(f"{kind.name.lower()}: {told}")


def refuse_sparse(kind: OpKind, tensors: Tensors) -> None:
    """Raise for tensors that are not dense, in every stage."""
    if any(tensor.layout != torch.strided for tensor in tensors):
        raise NotImplementedError(f"{kind.name.lower()} of sparse tensors is not available; make them dense first")


def refuse_irreducible(kind: OpKind, reduce: str, tensors: Tensors) -> None:
    """Raise for a type that cannot be reduced so; `reduce`: "" for what is no reduction."""
    for dtype in {tensor.dtype for tensor in tensors if reduce}:
        bits = reduce in BITWISE and dtype not in INTEGRAL
        eight = dtype.is_floating_point and dtype.itemsize == 1  # sums are made by torch on the CPU, which has none
        if bits or eight or dtype in UNSIGNED or (dtype.is_complex and reduce in ORDERED):
            raise RuntimeError(f"{kind.name.lower()}: cannot use {reduce} with {str(dtype).removeprefix('torch.')}")
