"""Keeping the record of a capture, operation by operation: what stays of each, and how much that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prism.core.calls import Ref
from prism.core.contribution import Part
from prism.core.graph import ITEMSIZE, OpKind
from prism.core.record import PostStep
from prism.core.stage.kept import Kept, PayloadCount
from prism.core.stage.op import Op

REDUCTIONS = frozenset({OpKind.ALL_REDUCE, OpKind.REDUCE_SCATTER, OpKind.REDUCE})
"""Operations whose result is a sum."""


class Keeping:
    """Applies `kept` to operations that end; `count` is what came of it."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.count = PayloadCount()

    def parts(self, op: Op) -> tuple[Part, ...]:
        """The partial sums to keep of an operation; none where its result is not kept either."""
        call = op.call
        if call.kind not in REDUCTIONS or not self.kept.keeps(call.dtype, call.count * ITEMSIZE[call.dtype]):
            return ()
        return self.kept.parts(op.members)

    def note(self, op: Op, steps: Mapping[int, PostStep], sums: Sequence[Ref]) -> list[Ref]:
        """Write into its members' steps what stays of an operation that has its results; returns those that do not."""
        itemsize = ITEMSIZE[op.call.dtype]
        dropped = [ref for ref in op.results if not self.kept.keeps(op.call.dtype, ref.nbytes)]
        for member, step in steps.items():
            result = op.result(member, itemsize)
            if result is not None and op.whole(member) in dropped:
                step.dropped = result.nbytes
            else:
                step.result = result
        self._note_sums(op, steps, sums)
        stored = sum(ref.nbytes for ref in (*op.results, *sums))
        missing = sum(ref.nbytes for ref in dropped)
        self.count.dropped_bytes += missing
        self.count.kept_bytes += stored - missing
        self.count.synthesised_ops += any(step.dropped for step in steps.values())
        return dropped

    def _note_sums(self, op: Op, steps: Mapping[int, PostStep], sums: Sequence[Ref]) -> None:
        for part, ref in zip(self.parts(op) if sums else (), sums, strict=True):
            for member in part.left_out if part.member < 0 else (part.member,):
                setattr(steps[member], part.field, ref)
