"""The payload store: tensor bytes in files that all processes of a host map, passed on by reference.

Each process writes to files of its own (an `Arena`) and maps those of others (a `Library`), so nobody locks. Small
payloads share a segment and large ones have a file each; both are used again once all that lies in them is released,
because fresh pages cost more than the copy. Files live in a directory of memory (scratch) or of the run's output (the
record, which is never released).
"""

from __future__ import annotations

import mmap
import os
import threading
from collections import defaultdict
from pathlib import Path

from prism.core.events import Ref

SEGMENT_BYTES = 4 << 20
"""A segment for small payloads; what is larger than a quarter of it has a file of its own."""
ALIGN = 64
"""Payloads start at cache lines."""


class _File:
    """One mapped file of an arena, and how many payloads in it are in use."""

    def __init__(self, path: Path, nbytes: int) -> None:
        self.name = path.name
        self.nbytes = nbytes
        self.used = 0
        self.live = 0
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, nbytes)  # a full disk is an error here, not a SIGBUS later
            self.view = memoryview(mmap.mmap(descriptor, nbytes))
        finally:
            os.close(descriptor)


class Arena:
    """The files that one process writes, from any of its threads; `owner` must be unique in the directory."""

    def __init__(self, directory: Path, owner: str) -> None:
        self._directory = directory
        self._owner = owner
        self._lock = threading.Lock()
        self._files: dict[str, _File] = {}
        self._segment: _File | None = None
        self._free: dict[int, list[_File]] = defaultdict(list)  # size -> files that may be used again

    def put(self, nbytes: int) -> tuple[Ref, memoryview]:
        """Room for a payload: its reference, and the bytes to fill; raises OSError if the device is full."""
        with self._lock:
            file = self._file_for(nbytes)
            offset = file.used
            file.used = -(-(offset + nbytes) // ALIGN) * ALIGN
            file.live += 1
        return Ref(file.name, offset, nbytes), file.view[offset : offset + nbytes]

    def release(self, ref: Ref) -> None:
        """Nobody needs the payload any more."""
        with self._lock:
            file = self._files[ref.file]
            file.live -= 1
            if not file.live and file is not self._segment:
                self._recycle(file)

    def _file_for(self, nbytes: int) -> _File:
        if nbytes > SEGMENT_BYTES // 4:
            return self._take(1 << (nbytes - 1).bit_length())
        if self._segment is None or self._segment.used + nbytes > SEGMENT_BYTES:
            full, self._segment = self._segment, self._take(SEGMENT_BYTES)
            if full is not None and not full.live:
                self._recycle(full)
        return self._segment

    def _take(self, nbytes: int) -> _File:
        if self._free[nbytes]:
            return self._free[nbytes].pop()
        file = _File(self._directory / f"{self._owner}-{len(self._files)}", nbytes)
        self._files[file.name] = file
        return file

    def _recycle(self, file: _File) -> None:
        file.used = 0
        self._free[file.nbytes].append(file)


class Library:
    """Reads payloads that any process has put into one of the directories; mappings are kept."""

    def __init__(self, *directories: Path) -> None:
        self._directories = directories
        self._views: dict[str, memoryview] = {}

    def read(self, ref: Ref) -> memoryview:
        """The payload's bytes, shared and not copied; raises FileNotFoundError if no directory has its file."""
        view = self._views.get(ref.file)
        if view is None:
            view = self._views[ref.file] = self._map(ref.file)
        return view[ref.offset : ref.offset + ref.nbytes]

    def _map(self, name: str) -> memoryview:
        for directory in self._directories:
            try:
                descriptor = os.open(directory / name, os.O_RDWR)
            except FileNotFoundError:
                continue
            try:
                return memoryview(mmap.mmap(descriptor, 0))  # writable, for torch warns of memory that is not
            finally:
                os.close(descriptor)
        raise FileNotFoundError(f"payload file {name} is in none of {[str(d) for d in self._directories]}")
