"""The steps of a rank as its lane tells them, for a rank that nobody has captured: one of a graph that was made larger.

A lane knows less than a record: no shapes, no results, and even parts where a record has splits.
"""

from __future__ import annotations

import numpy as np

from prism.core.calls import Call
from prism.core.emulation.touching import side
from prism.core.graph import ITEMSIZE, Graph, NodeKind
from prism.core.record import MarkStep, PostStep, RankRecord, Step, WaitStep


def record_of_lane(graph: Graph, rank: int) -> RankRecord:
    """What a record of the rank would hold, as far as the graph knows; handles are numbered as posts are made."""
    lane = int(np.flatnonzero(graph.lanes["rank"] == rank)[0])
    first, last = int(graph.lane_ptr[lane]), int(graph.lane_ptr[lane + 1])
    steps: list[Step] = []
    handles: dict[int, int] = {}  # op -> handle
    for node in range(first, last):
        kind, ref = graph.nodes["kind"][node], int(graph.nodes["ref"][node])
        if kind == NodeKind.POST:
            handles[ref] = len(handles) + 1
            steps.append(_post(graph, node, handles[ref]))
        elif kind == NodeKind.WAIT:
            ops = graph.wait_ops[graph.wait_ptr[ref] : graph.wait_ptr[ref + 1]].tolist()
            steps.append(WaitStep(tuple(handles[op] for op in ops), _site(graph, node)))
        elif kind == NodeKind.MARK:
            steps.append(MarkStep())
    return RankRecord(rank, steps)


def _post(graph: Graph, node: int, handle: int) -> PostStep:
    what = side(graph, node)
    count = what.nbytes // max(ITEMSIZE[what.dtype], 1)
    call = Call(what.kind, what.dtype, count, what.reduce, what.root, what.peer, max(what.tag, 0), what.sends)
    return PostStep(what.group.name, handle, call, _site(graph, node))


def _site(graph: Graph, node: int) -> str:
    site = int(graph.nodes["site"][node])
    return graph.sites[site] if site >= 0 else ""
