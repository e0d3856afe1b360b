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
    """Fill the tensors from bytes that lie back to back; autograd does not notice, as with any backend."""
    at = 0
    for tensor in into:
        size = tensor.numel() * tensor.element_size()
        if size:
            tensor.data.copy_(view(data[at : at + size], tensor.dtype).view(tensor.shape))
        at += size
