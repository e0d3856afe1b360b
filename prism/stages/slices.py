"""The progress of a calibration on disk: what each slice has measured, so that a killed run goes on from there."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from prism.core.events import Clocked
from prism.core.measuring.segments import Segments
from prism.core.measuring.slice_log import VERSION, Head, Slice, decode, encode
from prism.exhaustion import room_in


class SliceLog:
    """The log in the output folder of the slices measured for `digest`.

    `dropped`: bytes of a torn tail, not used. `clocks`: how the devices of ranks ran that were measured before.
    """

    def __init__(self, path: Path, digest: str) -> None:
        self._path = path
        data = path.read_bytes() if path.exists() else b""
        slices, whole = decode(data, digest)
        self._known = {(one.answers, one.ranks, one.iterations): one.segments for one in slices}
        self.clocks = {seen.rank: seen for one in slices for seen in one.clocks}
        self.dropped = len(data) - whole if whole else 0
        if whole:
            os.truncate(path, whole)
        else:
            path.unlink(missing_ok=True)
            self._append(encode(Head(VERSION, digest)))

    def find(self, answers: Literal["fast", "paced"], ranks: Sequence[int], iterations: int) -> list[Segments] | None:
        """What the slice measured before; None if it has not run to its end."""
        return self._known.get((answers, tuple(ranks), iterations))

    def add(
        self,
        answers: Literal["fast", "paced"],
        ranks: Sequence[int],
        iterations: int,
        segments: list[Segments],
        clocks: Mapping[int, Clocked],
    ) -> None:
        """Keep what a slice has measured, and the clocks of its ranks; raises Exhausted if there is no room for it."""
        seen = [clocks[rank] for rank in ranks if rank in clocks]
        self._append(encode(Slice(answers, tuple(ranks), iterations, segments, seen)))

    def remove(self) -> None:
        """The stage is over."""
        self._path.unlink(missing_ok=True)

    def _append(self, entry: bytes) -> None:
        with room_in(self._path.parent, len(entry)):
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                written = 0
                while written < len(entry):
                    written += os.write(descriptor, entry[written:])
                os.fdatasync(descriptor)
            finally:
                os.close(descriptor)
