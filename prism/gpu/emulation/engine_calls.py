"""From what a rank posts to what the pruned engine runs: one translation for sandbox ranks and their assistants."""

from __future__ import annotations

from prism.core.calls import Call
from prism.core.graph import ITEMSIZE, OpKind
from prism.core.record import PostStep
from prism.gpu.pruned import Op
from prism.net.schedule import Schedule

PAIRWISE = frozenset({OpKind.GATHER, OpKind.SCATTER, OpKind.ALL_TO_ALL})
"""Collectives in which each pair of members exchanges its own bytes; all others go round a ring."""


def engine_op(call: Call, size: int, rank: int, tree: bool = False) -> Op:
    """The engine's words for a call on a group of `size` members, by its member `rank`; `tree`: it runs along trees."""
    count = call.count
    if call.kind is OpKind.SCATTER and rank == call.root:
        count //= size  # torch counts all that the root gives, the engine what each member gets
    reduce = "sum" if call.reduce == "premul_sum" else call.reduce
    return Op(call.kind, size, call.dtype, reduce, call.root, count, call.send, call.recv, tree)


def result_bytes(call: Call, size: int, rank: int) -> int:
    """How many bytes a member gets from a collective."""
    elements = {
        OpKind.ALL_REDUCE: call.count,
        OpKind.REDUCE: call.count if rank == call.root else 0,
        OpKind.BROADCAST: call.count if rank != call.root else 0,
        OpKind.REDUCE_SCATTER: call.send[rank] if call.send else call.count // size,
        OpKind.ALL_GATHER: sum(call.recv) or call.count * size,
        OpKind.GATHER: (sum(call.recv) or call.count * size) if rank == call.root else 0,
        OpKind.SCATTER: call.count // size if rank == call.root else call.count,
        OpKind.ALL_TO_ALL: sum(call.recv) or call.count,
        OpKind.BARRIER: 0,
    }
    return elements[call.kind] * ITEMSIZE[call.dtype]


def message_bytes(step: PostStep, most: int) -> int:
    """How many bytes a message has: what its sender sends, or its receiver got; `most` where nobody recorded it."""
    if step.call.sends:
        return step.call.count * ITEMSIZE[step.call.dtype]
    return most if step.result is None else step.result.nbytes


def named(row: int) -> str:
    """The engine's name for a group, by its row in the graph."""
    return f"group{row}"


def group_name(schedule: Schedule, op: int) -> str:
    """The engine's name for the group of a touching collective."""
    return named(int(schedule.ops.group[op]))


def pipe_name(schedule: Schedule, op: int) -> str:
    """The engine's name for the channel of a touching message: one pair, one direction, one tag."""
    ops = schedule.ops
    return f"{group_name(schedule, op)}-from{ops.sender[op]}-to{ops.receiver[op]}-tag{ops.tag[op]}"
