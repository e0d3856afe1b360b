"""What if the job itself were another: the changes of a variant to the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from prism.core.graph import Graph
from prism.core.what_if.microbatches import with_micro_batches
from prism.core.what_if.replicas import with_replicas
from prism.core.what_if.routing import with_routing
from prism.scenario import WhatIf
from prism.scenario.flaw import Flaw

CHANGES: dict[str, Callable[[Graph, Any], Graph]] = {
    "micro_batches": lambda graph, block: with_micro_batches(graph, block.before, block.after),
    "routing": lambda graph, block: with_routing(graph, block.hottest, block.group),
    "replicas": lambda graph, block: with_replicas(graph, block.mesh, block.over, block.to),
}
"""Keys of a variant, each with what its block makes of a graph, in the order in which they apply."""


def changed_graph(graph: Graph, variant: WhatIf) -> Graph:
    """The graph with a variant's changes; raises Flaw, its path from the variant on, where the graph forbids one."""
    for key, change in CHANGES.items():
        block = getattr(variant, key)
        if block is not None:
            try:
                graph = change(graph, block)
            except ValueError as error:
                raise Flaw((key,), str(error)) from None
    return graph


def changes(variant: WhatIf) -> bytes:
    """What a variant changes of the graph; equal for variants that have one graph."""
    return msgspec.json.encode([getattr(variant, key) for key in CHANGES])
