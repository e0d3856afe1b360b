"""The record of a capture: an arena that only grows, and in which equal payloads of all processes are stored once.

FSDP gathers the same parameters forward and backward, and replicas with the same data send the same bytes. Whoever
stores a large payload looks its digest up first. The index is a directory of symbolic links, one for each payload that
is stored, named by the digest and pointing to file and offset: a link is made by one process or another, never by two.
Sums are not looked up: the fold writes them as it goes, and no two of them are expected to be equal.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from prism.core.calls import Ref
from prism.exhaustion import room_in
from prism.net.payloads import ALIGN, Arena, Buffers, Library, pieces

LARGE = 64 * 1024
"""Bytes from which on a payload is worth looking up."""
INDEX = "equal"


class Record(Arena):
    """The part of the record that one process writes; see Arena."""

    def __init__(self, directory: Path, owner: str) -> None:
        super().__init__(directory, owner)
        self._index = directory / INDEX / owner.rpartition(".")[0]  # hosts may share the directory, but not its cache

    def put(self, buffers: Buffers, nbytes: int) -> Ref:
        """As Arena's, or the reference of equal bytes that are stored already."""
        if nbytes < LARGE:
            return super().put(buffers, nbytes)
        digest = _digest(buffers)
        return self._stored(digest, nbytes) or self._publish(digest, super().put(buffers, nbytes))

    def join(self, parts: Iterable[Ref], library: Library) -> Ref:
        """As Arena's, or the reference of equal bytes that are stored already."""
        parts = list(parts)
        nbytes = sum(part.nbytes for part in parts)
        if nbytes < LARGE:
            return super().join(parts, library)
        digest = _digest(pieces(parts, library))
        return self._stored(digest, nbytes) or self._publish(digest, super().join(parts, library))

    def room(self, nbytes: int) -> int:
        """As much as it takes: nothing is released, so nothing has to fit in its place."""
        return -(-max(nbytes, 1) // ALIGN) * ALIGN

    def _stored(self, digest: str, nbytes: int) -> Ref | None:
        try:
            file, _, offset = os.readlink(self._index / digest).rpartition(":")
        except FileNotFoundError:
            return None
        return Ref(file, int(offset), nbytes)

    def _publish(self, digest: str, ref: Ref) -> Ref:
        """Let others find what has been written; gives what they will find."""
        with room_in(self.directory):
            self._index.mkdir(parents=True, exist_ok=True)
            try:
                os.symlink(f"{ref.file}:{ref.offset}", self._index / digest)
            except FileExistsError:  # another process was faster
                self.release(ref)
                return self._stored(digest, ref.nbytes) or ref
        return ref


def _digest(buffers: Sequence[memoryview] | Iterator[bytearray] | Buffers) -> str:
    digest = hashlib.sha256(usedforsecurity=False)
    for buffer in buffers:
        digest.update(memoryview(buffer).cast("B"))
    return digest.hexdigest()
