"""Results made up on the device, as prism.gpu.group.synthesis does, by copies alone: streams are parked meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from prism.core.calls import Call
from prism.core.graph import OpKind
from prism.gpu.cuda.copies import flat_bytes
from prism.gpu.cuda.driver import Driver


def stand_in(
    driver: Driver, call: Call, member: int, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
) -> None:
    """Fill the outputs of a group's member from its own inputs where shapes allow that, else with zeros."""
    if call.kind in (OpKind.ALL_REDUCE, OpKind.REDUCE):
        return  # the inputs are the outputs
    own = [flat_bytes(tensor) for tensor in inputs] if call.kind in (OpKind.ALL_GATHER, OpKind.GATHER) else []
    if call.kind is OpKind.REDUCE_SCATTER:
        size = inputs[0].element_size()
        own = _part([flat_bytes(one) for one in inputs], sum(call.send[:member]) * size, call.send[member] * size)
    for output in outputs:
        into, at = flat_bytes(output), 0
        if not any(len(piece) for piece in own):
            driver.zero(into)
        else:
            for piece in _again(own, len(into)):
                driver.copy(into[at : at + len(piece)], piece)
                at += len(piece)


def _part(flat: Sequence[torch.Tensor], start: int, nbytes: int) -> list[torch.Tensor]:
    """Those bytes of tensors that lie back to back."""
    found: list[torch.Tensor] = []
    for one in flat:
        piece = one[max(start, 0) : max(start + nbytes, 0)]
        if len(piece):
            found.append(piece)
        start -= len(one)
    return found


def _again(pieces: Sequence[torch.Tensor], nbytes: int) -> Iterator[torch.Tensor]:
    """So many bytes: the pieces, from the first again and again."""
    while nbytes:
        for piece in pieces:
            yield piece[:nbytes]
            nbytes -= min(nbytes, len(piece))
