"""Steps: a lane as a sequence of numbers that do not tell which op is posted or waited for, only what is done.

A step is a node other than a compute segment, with the compute segments before it. For each op that it posts or waits
for it has a part in a *series*: all posts, or all waits, of like ops on one side of a channel. Steps with equal *codes*
do the same to the next op of the same series, or to one as far back, at the same line of the program.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prism.core.graph import Graph, Int64, NodeKind, OpKind
from prism.core.numbering import number, number_lists
from prism.core.what_if.channels import Channels, channels, waits

POSTED = -1
"""In the place of a distance, where an op is posted and not waited for."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of all lanes, lane by lane."""

    lane_ptr: Int64  # lanes + 1
    first: Int64  # steps: the first node
    end: Int64  # steps: one behind the last node
    code: Int64  # steps
    ptr: Int64  # steps + 1: the parts of step i are ptr[i]:ptr[i + 1]
    series: Int64  # parts
    message: Int64  # parts: what a posted message is to both of its sides; -1 for all else
    about_messages: npt.NDArray[np.bool_]  # parts: whether a message is posted or waited for


def find_steps(graph: Graph) -> Steps:
    """The steps of a graph; raises ValueError where a rank posts ops in another order than they run."""
    within, kind = channels(graph), graph.nodes["kind"]
    node = np.flatnonzero(kind != NodeKind.COMPUTE)
    lane_ptr = np.searchsorted(node, graph.lane_ptr)
    first = np.maximum(np.concatenate(([0], node + 1))[:-1], np.repeat(graph.lane_ptr[:-1], np.diff(lane_ptr)))
    at, op, side, distance = _parts(graph, within)
    alike, is_message, posted = _alike(graph)[op], graph.ops["kind"][op] == OpKind.SEND_RECV, distance == POSTED
    series = number([side, alike, posted.astype(np.int64)])
    ptr = np.searchsorted(at, np.append(node, len(kind)))
    what = number_lists(ptr, number([series, distance]))
    return Steps(
        lane_ptr=lane_ptr,
        first=first,
        end=node + 1,
        code=number([kind[node], what, graph.nodes["site"][node], node - first]),
        ptr=ptr,
        series=series,
        message=np.where(posted & is_message, number([within.of_op[op], alike]), -1),
        about_messages=is_message,
    )


def _parts(graph: Graph, within: Channels) -> tuple[Int64, Int64, Int64, Int64]:
    """Each part of a step, in their order: its node, the op, the side, and the distance of a wait, or else POSTED."""
    posts, waited = np.flatnonzero(graph.nodes["kind"] == NodeKind.POST), waits(graph, within)
    node = np.concatenate((posts, waited.node))
    op = np.concatenate((graph.nodes["ref"][posts], waited.op))
    side = np.concatenate((within.side[posts], waited.side))
    distance = np.concatenate((np.full(len(posts), POSTED), waited.distance))
    order = np.argsort(node, kind="stable")
    return node[order], op[order], side[order], distance[order]


def _alike(graph: Graph) -> Int64:
    """A number for what each op does, int64[ops]; the sizes of an all_to_all, which routing changes, do not count."""
    ops = graph.ops
    nbytes = np.where(ops["kind"] == OpKind.ALL_TO_ALL, 0, ops["nbytes"])
    return number([*(ops[name] for name in ("kind", "reduce", "dtype", "root")), nbytes])
