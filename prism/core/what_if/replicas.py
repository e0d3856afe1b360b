"""Replicas: the graph of a job with more of them, or with another dimension of its mesh longer.

What is dealt out over a group stays as large as it is, so with more members each holds less of it: parameters and
gradients under FSDP and ZeRO, activations under sequence parallelism. What each member has of its own stays: tokens,
gradients that are summed. So with n times as many members the input of an all_gather or a gather is the nth part,
rounded up to whole elements; the inputs of all other operations are what they were. Compute keeps its durations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from prism.core.graph import DTYPES, ITEMSIZE, Graph, OpKind, Table
from prism.core.what_if.expansion import expand
from prism.core.what_if.mesh import Stretch, stretch
from prism.core.what_if.stretched_groups import spans

SHARDED = (OpKind.ALL_GATHER, OpKind.GATHER)
"""Operations whose inputs are parts of a whole that stays; the input of a reduce_scatter or a scatter is the whole."""


def with_replicas(graph: Graph, mesh: Mapping[str, int], over: str, to: int) -> Graph:
    """The graph of the job with extent `to` along a dimension of its mesh; mesh and errors are those of `expand`."""
    return expand(replace(graph, ops=_sharded(graph, stretch(mesh, over, to, graph.world_size))), mesh, over, to)


def _sharded(graph: Graph, along: Stretch) -> Table:
    """The ops, with the inputs that each member will have."""
    ops = graph.ops.copy()
    stretched = np.array([spans(group, along) for group in graph.groups], np.bool_)
    rows = np.flatnonzero(np.isin(ops["kind"], SHARDED) & stretched[ops["group"]])
    itemsize = np.array([max(ITEMSIZE[name], 1) for name in DTYPES])[ops["dtype"][rows]]
    ops["nbytes"][rows] = -(-(ops["nbytes"][rows] // itemsize * along.extent) // along.to) * itemsize
    return ops
