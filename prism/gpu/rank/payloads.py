"""A rank's payloads: where the bytes go that it puts in and sums up, and where those come from that it gets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from prism.core.calls import Ref
from prism.core.stage.kept import Kept
from prism.gpu.group.tensors import load, load_blocks, nbytes, save
from prism.net.passing import OVERFLOW, Passing
from prism.net.payloads import Arena, Library
from prism.net.record import Record


class RankPayloads:
    """`scratch` holds what is spent once it is read, `record` what `kept` keeps; `owner` names this rank's files."""

    def __init__(self, scratch: Path, record: Path, owner: str, kept: Kept) -> None:
        self.kept = kept
        self._passing = Passing(scratch, record, f"{owner}-input")
        self._record = Record(record, f"{owner}-result")
        self._library = Library(scratch, record, record / OVERFLOW)

    def put(self, inputs: Sequence[torch.Tensor], lasting: bool) -> Ref:
        """Put an input, as it is now, where others read it; raises Exhausted where there is no room."""
        return save(inputs, self.room(nbytes(inputs), lasting))

    def room(self, nbytes: int, lasting: bool) -> Arena:
        """Where so many bytes go: into the record, or where room is used again."""
        return self._record if lasting else self._passing.arena(nbytes)

    def load(self, result: Ref, blocks: Sequence[int], into: Sequence[torch.Tensor], room: Sequence[int]) -> None:
        """Fill tensors with a result, in blocks that do not fill their room where such are given."""
        if blocks:
            load_blocks(result, self._library, blocks, into, room)
        else:
            load(result, self._library, into)

    def _home(self, dtype: str, nbytes: int) -> Arena:
        """Where a result belongs."""
        return self.room(nbytes, self.kept.keeps(dtype, nbytes))
