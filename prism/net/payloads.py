"""The payload store: tensor bytes in files that all processes of a host read, passed on by reference.

Each process appends to files of its own (an `Arena`) and reads those of others (a `Library`), so nobody locks. Files
are written and read in place, never mapped: a fresh mapping costs a page fault every 4 KiB, which is several times the
copy itself. They lie in a directory in memory (scratch, where released room is used again) or in the run's output (the
record, which only grows).
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from prism.core.calls import Ref
from prism.exhaustion import room_in

ALIGN = 64
"""Payloads start at cache lines."""
CHUNK = 1 << 20
"""Bytes that are moved from file to file at a time; they stay in the second-level cache."""
IOV_MAX = 1024
"""Buffers that the kernel takes in one call."""

Buffers = Sequence[Any]
"""Objects that give bytes of memory, one after the other; none of them empty."""


class Arena:
    """The file that one process writes, from any of its threads; `owner` must be unique in the directory."""

    def __init__(self, directory: Path, owner: str) -> None:
        self.directory = directory
        self._path = directory / owner
        self._lock = threading.Lock()
        self._descriptor = -1
        self._end = 0
        self._free: dict[int, list[int]] = defaultdict(list)  # size -> offsets that may be used again

    @property
    def name(self) -> str:
        """The file's, as references tell it."""
        return self._path.name

    def put(self, buffers: Buffers, nbytes: int) -> Ref:
        """Write the buffers, `nbytes` in all, back to back; raises Exhausted if the device is full."""
        ref = self.reserve(nbytes)
        with room_in(self.directory, nbytes):
            _transfer(os.pwritev, self.descriptor, buffers, ref.offset)
        return ref

    def reserve(self, nbytes: int) -> Ref:
        """Room that the caller will write himself, at the reference's offset of `descriptor`."""
        size = self.room(nbytes)
        with self._lock, room_in(self.directory, nbytes):
            if self._descriptor < 0:
                self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            if self._free[size]:
                offset = self._free[size].pop()
            else:
                offset, self._end = self._end, self._end + size
        return Ref(self._path.name, offset, nbytes)

    def write(self, ref: Ref, buffers: Buffers) -> None:
        """Write the buffers, all of them, to room that was reserved, back to back; raises Exhausted as `put`."""
        with room_in(self.directory, ref.nbytes):
            _transfer(os.pwritev, self.descriptor, buffers, ref.offset)

    def release(self, ref: Ref) -> None:
        """Nobody needs the payload any more."""
        with self._lock:
            self._free[self.room(ref.nbytes)].append(ref.offset)

    def room(self, nbytes: int) -> int:
        """The room that a payload takes: small sizes to cache lines, larger ones to a quarter of a power of two."""
        step = max(ALIGN, 1 << max(nbytes.bit_length() - 3, 0))
        return -(-max(nbytes, 1) // step) * step

    def join(self, parts: Iterable[Ref], library: Library) -> Ref:
        """Copy payloads of any process back to back into one of this arena."""
        parts = list(parts)
        whole = self.reserve(sum(part.nbytes for part in parts))
        at = whole.offset
        with room_in(self.directory, whole.nbytes):
            for piece in pieces(parts, library):
                _transfer(os.pwritev, self.descriptor, [piece], at)
                at += len(piece)
        return whole

    def close(self) -> None:
        """Close the file; what was put into it stays."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    @property
    def descriptor(self) -> int:
        """The file, once something was reserved in it."""
        return self._descriptor


class Library:
    """Reads payloads that any process has put into one of the directories; files stay open."""

    def __init__(self, *directories: Path) -> None:
        self._directories = directories
        self._descriptors: dict[str, int] = {}

    def read(self, ref: Ref) -> bytearray:
        """The payload's bytes; raises FileNotFoundError if no directory has its file."""
        data = bytearray(ref.nbytes)
        if data:
            self.read_into(ref, [data])
        return data

    def read_into(self, ref: Ref, buffers: Buffers) -> None:
        """Fill the buffers, one after the other, from the payload's start; they may be shorter than it."""
        _transfer(os.preadv, self.descriptor(ref), buffers, ref.offset)

    def descriptor(self, ref: Ref) -> int:
        """The open file of a payload; raises FileNotFoundError if no directory has it."""
        descriptor = self._descriptors.get(ref.file)
        if descriptor is None:
            with room_in(self._directories[0]):
                descriptor = self._descriptors[ref.file] = self._open(ref.file)
        return descriptor

    def close(self) -> None:
        """Close the files that were read."""
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()

    def _open(self, name: str) -> int:
        for directory in self._directories if "/" not in name else ():  # references come from other processes
            try:
                return os.open(directory / name, os.O_RDONLY)
            except FileNotFoundError:
                continue
        raise FileNotFoundError(f"payload file {name} is in none of {[str(d) for d in self._directories]}")


def pieces(parts: Iterable[Ref], library: Library) -> Iterator[bytearray]:
    """The bytes of payloads one after the other, a chunk at a time."""
    for part in parts:
        for start in range(0, part.nbytes, CHUNK):
            yield library.read(part.part(start, min(CHUNK, part.nbytes - start)))


def _transfer(call: Any, descriptor: int, buffers: Buffers, offset: int) -> None:
    """Read or write all the bytes of the buffers, however the kernel cuts them."""
    views = [memoryview(buffer).cast("B") for buffer in buffers]
    while views:
        moved = call(descriptor, views[:IOV_MAX], offset)
        if moved == 0:
            raise EOFError(f"a payload file ends at byte {offset}, inside a payload")
        offset += moved
        while views and moved >= len(views[0]):
            moved -= len(views.pop(0))
        if moved:
            views[0] = views[0][moved:]
