"""Flat memory for the pruned engine: where the bytes of an operation's tensors lie, or a copy that stands for them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from prism.core.calls import Ref
from prism.gpu.group.tensors import flat_bytes, is_flat, nbytes
from prism.gpu.meter.memory import uncounted


@dataclass(frozen=True, slots=True)
class Buffer:
    """Bytes at an address; `keep` is what owns them. A library of one payload: its own bytes."""

    address: int
    nbytes: int
    keep: Any

    @classmethod
    def empty(cls, nbytes: int) -> Buffer:
        """New memory, all zero, that no meter of torch's sees."""
        return cls.over(bytearray(nbytes))

    @classmethod
    def over(cls, data: bytearray) -> Buffer:
        """The memory of a bytearray."""
        address = ctypes.addressof(ctypes.c_char.from_buffer(data)) if data else 0
        return cls(address, len(data), data)

    def view(self) -> memoryview:
        """The bytes, shared."""
        if not self.nbytes:
            return memoryview(b"")
        return memoryview((ctypes.c_char * self.nbytes).from_address(self.address)).cast("B")

    def read_into(self, ref: Ref, buffers: Sequence[Any]) -> None:
        """Fill the buffers from the bytes at the reference's offset, as a Library does."""
        source, at = self.view(), ref.offset
        for buffer in buffers:
            target = memoryview(buffer).cast("B")
            target[:] = source[at : at + len(target)]
            at += len(target)


def in_place(tensors: Sequence[torch.Tensor], size: int) -> Buffer | None:
    """The memory of a single flat tensor of so many bytes; None if they are anything else."""
    if len(tensors) == 1 and size and nbytes(tensors) == size and is_flat(tensors[0]):
        return Buffer(tensors[0].data_ptr(), size, tensors[0])
    return None


@uncounted
def copied(tensors: Sequence[torch.Tensor]) -> Buffer:
    """The elements of some tensors back to back, as they are now; the tensors are not kept."""
    parts = [memoryview(flat_bytes(tensor)).cast("B") for tensor in tensors if tensor.numel()]
    return Buffer.over(bytearray(parts[0]) if len(parts) == 1 else bytearray().join(parts))


def staged(inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> Buffer:
    """Where an operation reads its inputs: in their own memory if that is its output's too, else from a copy.

    The program may let go of an input before the operation is done, and its peak of memory must not show who kept it.
    """
    ours = in_place(inputs, nbytes(inputs))
    if ours is not None and any(tensor.data_ptr() == ours.address for tensor in outputs):
        return ours
    return copied(inputs)
