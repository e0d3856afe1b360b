"""What events and instructions speak of: bytes of the payload store, a rank's side of an operation, a store call."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from prism.core.graph import OpKind


class Ref(msgspec.Struct, array_like=True, frozen=True):
    """Bytes of the payload store: a file, an offset in it and a size in bytes."""

    file: str
    offset: int
    nbytes: int

    @property
    def host(self) -> str:
        """The worker on whose host the file is: names of files begin with it, and a dot."""
        return self.file.partition(".")[0]

    def part(self, offset: int, nbytes: int) -> Ref:
        """A piece of these bytes, `offset` bytes in."""
        return Ref(self.file, self.offset + offset, nbytes)


class Call(msgspec.Struct, array_like=True, frozen=True):
    """One rank's side of an operation, in elements of `dtype`; ranks are group ranks, -1 is none (or any source)."""

    kind: OpKind
    dtype: str = "none"
    count: int = 0  # own input; of a receive: the size awaited
    reduce: str = "none"
    root: int = -1
    peer: int = -1
    tag: int = 0
    sends: bool = False
    send: tuple[int, ...] = ()  # elements for each member: all_to_all, uneven reduce_scatter
    recv: tuple[int, ...] = ()  # elements awaited from each member: all_gather, gather at the root, all_to_all
    shape: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """How a user would name the operation."""
        if self.kind is OpKind.SEND_RECV:
            return "send" if self.sends else "recv"
        return self.kind.name.lower()


class StoreCall(msgspec.Struct, array_like=True, frozen=True):
    """One call of a key-value store: set, get, add, wait, check, compare_set, delete, count, append."""

    action: str
    keys: tuple[str, ...] = ()
    value: bytes = b""
    desired: bytes = b""
    amount: int = 0
    store: str = ""  # which of the run's


class Reply(NamedTuple):
    """What a caller of the store gets: a value, a number, and whether the key was there."""

    value: bytes = b""
    number: int = 0
    present: bool = True
    error: str = ""  # what the caller raises
