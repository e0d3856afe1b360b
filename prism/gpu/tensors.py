"""Tensors to payload bytes and back, without a temporary tensor: PRISM's memory must not show in a rank's peak."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch


def view(data: memoryview, dtype: torch.dtype) -> torch.Tensor:
    """The bytes as a flat tensor that shares their memory."""
    if not data.nbytes:
        return torch.empty(0, dtype=dtype)
    return torch.frombuffer(data, dtype=dtype)


def nbytes(tensors: Iterable[torch.Tensor]) -> int:
    """How many bytes the tensors' elements take, back to back."""
    return sum(t.numel() * t.element_size() for t in tensors)


def pack(tensors: Sequence[torch.Tensor], into: memoryview) -> None:
    """Copy the tensors' elements back to back, each in row-major order."""
    at = 0
    for tensor in tensors:
        size = tensor.numel() * tensor.element_size()
        if size:
            view(into[at : at + size], tensor.dtype).view(tensor.shape).copy_(tensor.data)
        at += size


def unpack(data: memoryview, into: Sequence[torch.Tensor]) -> None:
    """Fill the tensors from bytes that lie back to back; what the bytes do not reach stays as it was.

    Autograd does not notice, as with any backend.
    """
    at = 0
    for tensor in into:
        size = tensor.numel() * tensor.element_size()
        if size <= len(data) - at:
            if size:
                tensor.data.copy_(view(data[at : at + size], tensor.dtype).view(tensor.shape))
        else:
            _fill_front(tensor, data[at:])
        at += size


def unpack_blocks(data: memoryview, blocks: Sequence[int], into: Sequence[torch.Tensor], room: Sequence[int]) -> None:
    """Fill the tensors' elements from blocks of bytes, each at the start of its room (in elements)."""
    flat = torch.cat([tensor.data.reshape(-1) for tensor in into])
    source = target = 0
    for nbytes, elements in zip(blocks, room, strict=True):
        _fill_front(flat[target : target + elements], data[source : source + nbytes])
        source, target = source + nbytes, target + elements
    at = 0
    for tensor in into:
        tensor.data.copy_(flat[at : at + tensor.numel()].view(tensor.shape))
        at += tensor.numel()


def _fill_front(tensor: torch.Tensor, data: memoryview) -> None:
    came = view(data, tensor.dtype)
    flat = tensor.data.reshape(-1)
    flat[: came.numel()].copy_(came)
    if flat.data_ptr() != tensor.data_ptr():  # it was not contiguous, so this is a copy
        tensor.data.copy_(flat.view(tensor.shape))
