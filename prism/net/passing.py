"""Payloads that are spent once they are read: in memory while there is room, beyond that on the output folder's disk.

Room that is released is used again, as long as memory is plenty: fresh pages cost more than the copy into them. Where
it is scarce the pages are given back at once.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from prism.core.calls import Ref
from prism.exhaustion import room_in
from prism.net.payloads import Arena

OVERFLOW = "overflow"
"""The folder in the record for what does not fit in memory; it goes with the stage."""
SPARE = 0.1
"""The part of the memory's file system that is left to others."""
SCARCE = 0.5
"""The part of it that has to be free for released room to be kept."""
PUNCH_HOLE = 0x02 | 0x01  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE


class Passing:
    """The payloads of one process that are spent once they are read; `owner` is unique in the directories."""

    def __init__(self, memory: Path, record: Path, owner: str) -> None:
        self._memory = Arena(memory, owner)
        self._disk = Arena(record / OVERFLOW, f"{owner}-overflow")

    def arena(self, nbytes: int) -> Arena:
        """Where so many bytes have room."""
        free, total = _room(self._memory.directory)
        if free - nbytes >= SPARE * total:
            return self._memory
        with room_in(self._disk.directory.parent):
            self._disk.directory.mkdir(exist_ok=True)
        return self._disk

    def release(self, ref: Ref) -> None:
        """Nobody needs the payload any more."""
        arena = self._disk if ref.file == self._disk.name else self._memory
        free, total = _room(arena.directory)
        if arena is self._disk or free < SCARCE * total:
            _give_back(arena, ref)
        arena.release(ref)

    def close(self) -> None:
        """Close the files: what is still open takes up memory, even where its directory has gone."""
        self._memory.close()
        self._disk.close()


def _room(directory: Path) -> tuple[int, int]:
    about = os.statvfs(directory)
    return about.f_bavail * about.f_frsize, about.f_blocks * about.f_frsize


def _give_back(arena: Arena, ref: Ref) -> None:
    """The file keeps its size, and has a hole there; not all file systems can, and then the room stays."""
    _LIBC.fallocate(arena.descriptor, PUNCH_HOLE, ctypes.c_int64(ref.offset), ctypes.c_int64(arena.room(ref.nbytes)))


_LIBC = ctypes.CDLL(None)
