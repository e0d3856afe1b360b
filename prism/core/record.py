"""What each rank did and got, step by step: the source of the graph, and of every answer given from the record."""

from __future__ import annotations

from collections import Counter

import msgspec

from prism.core.calls import Call, Ref, Reply, StoreCall


class PostStep(msgspec.Struct, tag="post", array_like=True):
    """The rank posted `call` on a group and, in the end, got `result` (None: nothing to copy, or it was not kept).

    `before`, `after` and `rest` are partial sums of a sandbox rank's reduction: see prism.core.contribution.
    """

    group: str
    handle: int
    call: Call
    site: str
    result: Ref | None = None
    blocks: tuple[int, ...] = ()
    source: int = -1
    batch: int = 0
    before: Ref | None = None
    after: Ref | None = None
    rest: Ref | None = None
    dropped: int = 0  # bytes of a result that is not in the record
    checksum: int = 0  # of what the rank put in, where ranks are compared
    main: bool = True  # else another thread than the main one posted it: where among its steps is chance

    def told(self) -> str:
        """The step in words, for a divergence."""
        where = f"at {self.site or '?'}" if self.site or self.main else "on another thread"
        return f"{self.call.name} of {self.call.count} x {self.call.dtype} on group {self.group} {where}"


class WaitStep(msgspec.Struct, tag="wait", array_like=True):
    """The rank waited for what it had posted under these handles."""

    handles: tuple[int, ...]
    site: str

    def told(self) -> str:
        """The step in words, for a divergence."""
        return f"a wait for its operations {list(self.handles)} at {self.site or '?'}"


class MarkStep(msgspec.Struct, tag="mark", array_like=True):
    """An iteration ended."""

    def told(self) -> str:
        """The step in words, for a divergence."""
        return "the end of an iteration"


Step = PostStep | WaitStep | MarkStep


class RankRecord(msgspec.Struct):
    """One rank's steps in program order, and the store's replies, each with what was asked, in order of the answers."""

    rank: int
    steps: list[Step] = []
    replies: list[tuple[StoreCall, Reply]] = []

    def until(self, iterations: int) -> RankRecord:
        """The record of the first so many iterations; of all, with 0 or where there are fewer."""
        marks = [place for place, step in enumerate(self.steps, start=1) if isinstance(step, MarkStep)]
        if not 0 < iterations <= len(marks):
            return self
        return RankRecord(self.rank, self.steps[: marks[iterations - 1]], self.replies)

    def encode(self) -> bytes:
        """The record as bytes."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> RankRecord:
        """The record from its bytes; raises msgspec.DecodeError."""
        return msgspec.msgpack.decode(data, type=cls)


def lying(record: RankRecord) -> Counter[str]:
    """The bytes of all results of a rank, by the worker on whose host they are."""
    found: Counter[str] = Counter()
    for step in record.steps:
        if isinstance(step, PostStep) and step.result is not None:
            found[step.result.host] += step.result.nbytes
    return found
