"""PrismTrace files: reading, writing, and a summary (`python -m prism.trace FILE`)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from prism import __version__
from prism.atomic import write_whole
from prism.core.graph import Graph, NodeKind, OpKind
from prism.core.prismtrace import CorruptTrace, Trace, decode, encode
from prism.errors import ScenarioError

USAGE = "usage: python -m prism.trace FILE"


def read(path: str | os.PathLike[str]) -> Trace:
    """Read a trace; raises ScenarioError naming the file, and the byte and section of what is wrong with it."""
    try:
        return decode(Path(path).read_bytes())
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from error
    except CorruptTrace as error:
        raise ScenarioError(f"{path}: {error}") from error


def write(path: str | os.PathLike[str], graph: Graph, scenario: str = "") -> None:
    """Write a graph, with the digest of its scenario; the file appears whole, or stays as it was, even in a crash."""
    write_whole(Path(path), encode(Trace(graph, tool=__version__, scenario=scenario)))


def summary(trace: Trace) -> Iterator[str]:
    """The trace in readable lines."""
    graph = trace.graph
    marks = np.flatnonzero(graph.nodes["kind"] == NodeKind.MARK)
    iterations = np.bincount(graph.node_rank()[marks], minlength=graph.world_size)
    yield f"tool        prism {trace.tool or 'unknown'}"
    yield f"scenario    {trace.scenario or 'unknown'}"
    yield f"world       {graph.world_size} ranks"
    yield f"lanes       {len(graph.lanes)}"
    yield f"clock       {'ns (calibrated)' if graph.clock == 'ns' else f'{graph.clock} (order only)'}"
    yield f"iterations  {_range(iterations.min(), iterations.max())} a rank"
    yield f"nodes       {len(graph.nodes)}"
    for node_kind in NodeKind:
        yield f"  {node_kind.name.lower():14} {np.count_nonzero(graph.nodes['kind'] == node_kind):10}"
    yield f"ops         {len(graph.ops)}"
    for op_kind in OpKind:
        sizes = graph.ops["nbytes"][graph.ops["kind"] == op_kind]
        if sizes.size:
            yield f"  {op_kind.name.lower():14} {sizes.size:10} of {_range(sizes.min(), sizes.max())} bytes"
    yield f"groups      {len(graph.groups)}"
    for index, group in enumerate(graph.groups):
        used = np.count_nonzero(graph.ops["group"] == index)
        yield f"  {group.name:14} {used:10} ops on {len(group.ranks)} ranks, {group.backend}"


def _range(low: int, high: int) -> str:
    return f"{low}" if low == high else f"{low} to {high}"


def main(arguments: Sequence[str]) -> int:
    """Print the summary of one trace; the exit status is 2 if it cannot be read."""
    if list(arguments) in (["-h"], ["--help"]):
        print(USAGE)
        return 0
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(USAGE, file=sys.stderr)
        return ScenarioError.exit_code
    try:
        lines = list(summary(read(Path(arguments[0]))))
    except ScenarioError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
