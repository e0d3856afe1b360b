"""Results made up, where a record does not hold them: finite numbers of the right shape, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from prism.core.calls import Call
from prism.core.graph import OpKind
from prism.gpu.meter.memory import uncounted


@uncounted
def synthesise(call: Call, member: int, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
    """Fill the outputs of a group's member from its own inputs where shapes allow that, else with zeros.

    all_reduce, reduce: they are the inputs, and stay. all_gather, gather: the own block again and again.
    reduce_scatter: the own shard of the inputs.
    """
    match call.kind:
        case OpKind.ALL_REDUCE | OpKind.REDUCE:
            return
        case OpKind.ALL_GATHER | OpKind.GATHER:
            own = _flat(inputs)
        case OpKind.REDUCE_SCATTER:
            start = sum(call.send[:member])
            own = _flat(inputs)[start : start + call.send[member]]
        case _:
            own = torch.empty(0)
    for output in outputs:
        output.data.copy_(_repeated(own, output.numel()).view(output.shape))


def _flat(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensor.data.reshape(-1) for tensor in tensors])


def _repeated(block: torch.Tensor, count: int) -> torch.Tensor:
    """So many elements: the block's, from its start again and again; zeros if it is empty."""
    if not block.numel():
        return block.new_zeros(count)
    return block.repeat(-(-count // block.numel()))[:count]
