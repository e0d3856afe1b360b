"""Tensors to payload bytes and back, without a temporary tensor: PRISM's memory must not show in a rank's peak."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Protocol

import torch

from prism.core.calls import Ref
from prism.gpu.meter.memory import uncounted
from prism.net.payloads import Arena


class Reads(Protocol):
    """Where payloads are read from."""

    def read_into(self, ref: Ref, buffers: Sequence[Any]) -> None:
        """Fill the buffers, one after the other, from the payload's start."""


def nbytes(tensors: Sequence[torch.Tensor]) -> int:
    """How many bytes the tensors' elements take, back to back."""
    return sum(t.numel() * t.element_size() for t in tensors)


@uncounted
def save(tensors: Sequence[torch.Tensor], arena: Arena) -> Ref:
    """Write the tensors' elements back to back, each in row-major order."""
    return arena.put([flat_bytes(t) for t in tensors if t.numel()], nbytes(tensors))


@uncounted
def load(ref: Ref, library: Reads, into: Sequence[torch.Tensor]) -> None:
    """Fill the tensors from bytes that lie back to back; what the bytes do not reach stays as it was.

    Autograd does not notice, as with any backend.
    """
    direct: list[Any] = []
    strided: list[tuple[torch.Tensor, bytearray]] = []
    left = ref.nbytes
    for tensor in into:
        size = min(tensor.numel() * tensor.element_size(), left)
        left -= size
        if not size:
            continue
        if is_flat(tensor):
            direct.append(_memory(tensor)[:size])
        else:
            strided.append((tensor, bytearray(size)))
            direct.append(strided[-1][1])
    if direct:
        library.read_into(ref, direct)
    for tensor, data in strided:
        _scatter(tensor, data)


@uncounted
def load_blocks(
    ref: Ref, library: Reads, blocks: Sequence[int], into: Sequence[torch.Tensor], room: Sequence[int]
) -> None:
    """Fill the tensors' elements from blocks of bytes, each at the start of its room (in elements)."""
    flat = [tensor.data.reshape(-1) for tensor in into]
    whole = flat[0] if len(flat) == 1 else torch.cat(flat)
    source = target = 0
    for size, elements in zip(blocks, room, strict=True):
        load(ref.part(source, size), library, [whole[target : target + elements]])
        source, target = source + size, target + elements
    at = 0
    for tensor in into:
        tensor.data.copy_(whole[at : at + tensor.numel()].view(tensor.shape))
        at += tensor.numel()


def view(data: bytearray, dtype: torch.dtype) -> torch.Tensor:
    """The bytes as a flat tensor that shares their memory."""
    return torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)


def _memory(tensor: torch.Tensor) -> memoryview:
    """The bytes of a contiguous tensor, shared; not through numpy, after which torch would not resize the storage."""
    nbytes = tensor.numel() * tensor.element_size()
    return memoryview((ctypes.c_char * nbytes).from_address(tensor.data_ptr())).cast("B")


def flat_bytes(tensor: torch.Tensor) -> Any:
    """The elements of a tensor in row-major order: its own memory, or a copy that no meter sees."""
    if is_flat(tensor):
        return _memory(tensor)
    data = bytearray(tensor.numel() * tensor.element_size())
    view(data, tensor.dtype).view(tensor.shape).copy_(tensor.data)
    return data


def _scatter(tensor: torch.Tensor, data: bytearray) -> None:
    came = view(data, tensor.dtype)
    if came.numel() == tensor.numel():
        tensor.data.copy_(came.view(tensor.shape))
        return
    flat = tensor.data.reshape(-1)  # a copy, for the tensor is not contiguous
    flat[: came.numel()].copy_(came)
    tensor.data.copy_(flat.view(tensor.shape))


def is_flat(tensor: torch.Tensor) -> bool:
    """Whether the tensor's memory is its elements in row-major order, and already what it stands for."""
    return tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg())
