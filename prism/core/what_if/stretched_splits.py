"""The split matrices of all_to_alls in a job whose mesh gets longer along one dimension.

What one old member sent to another goes to all that behave like the other, in equal parts; the bytes that are left over
go round. So each member sends as much as before and, where the extent grows by a whole factor, gets as much as before.
"""

from __future__ import annotations

import numpy as np

from prism.core.graph import Graph, Int64, OpKind
from prism.core.levels import pointers, ranges
from prism.core.what_if.mesh import refuse_too_large
from prism.core.what_if.stretched_groups import StretchedGroups
from prism.core.what_if.stretched_ops import StretchedOps


def stretched_splits(graph: Graph, groups: StretchedGroups, ops: StretchedOps) -> tuple[Int64, Int64]:
    """`split_ptr` and `splits` of the new ops (see Graph); raises NotExpandable if there would be too many."""
    group = graph.ops["group"][ops.source]
    exchange = ops.table["kind"] == OpKind.ALL_TO_ALL
    split_ptr = pointers(np.where(exchange, np.diff(groups.member_ptr)[group] ** 2, 0))
    refuse_too_large(int(split_ptr[-1]), "all_to_all splits")
    splits = np.empty(split_ptr[-1], np.int64)
    same = np.flatnonzero(exchange & ~ops.widened)
    splits[_cells(split_ptr, same)] = graph.splits[_cells(graph.split_ptr, ops.source[same])]
    wide = np.flatnonzero(exchange & ops.widened)
    for rows in np.split(wide, np.flatnonzero(np.diff(group[wide])) + 1) if wide.size else ():
        first, last = groups.member_ptr[group[rows[0]]], groups.member_ptr[group[rows[0]] + 1]
        old = graph.splits[_cells(graph.split_ptr, ops.source[rows])]
        spread = _spread(old, rows.size, groups.member[first:last], groups.copy[first:last])
        splits[_cells(split_ptr, rows)] = spread
    return split_ptr, splits


def _cells(ptr: Int64, rows: Int64) -> Int64:
    return ranges(ptr[rows], ptr[rows + 1])


def _spread(old: Int64, count: int, member: Int64, copy: Int64) -> Int64:
    """The matrices of `count` ops in a row; member and copy tell how each new member behaves."""
    alike = np.bincount(member)
    matrices = old.reshape(count, alike.size, alike.size)[:, member[:, None], member]
    part, left = np.divmod(matrices, alike[member])
    turn = (copy - copy[:, None]) % alike[member]  # of the receiver, as each sender begins with its own copy
    return (part + (turn < left)).ravel()
