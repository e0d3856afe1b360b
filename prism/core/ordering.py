"""Orders that may hang: operations of one rank run in the order of their posts, and ranks disagree about that order.

Where a backend runs a rank's operations one after the other whatever their group (as NCCL may, when its kernels fill
the device), operation A before B on one rank and B before A on another is a deadlock that has not happened yet. Seen
over all ranks: the orders of posts, put together, have a cycle. The messages of one batch have no order among
themselves.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping

from prism.core.matching import Matcher, Op
from prism.core.record import PostStep, RankRecord
from prism.core.semantics import rules

Node = tuple[str, int, int]  # an operation ("op", its number, 0), or the gap before a rank's k-th unit ("gap", rank, k)


def crossed_operations(records: Iterable[RankRecord], matcher: Matcher) -> list[Op]:
    """The operations on one cycle of orders, in the order of the cycle; empty if there is none."""
    after: dict[Node, list[Node]] = defaultdict(list)
    before: dict[Node, int] = defaultdict(int)
    number = {(p.rank, p.handle): op.number for op in matcher.ops for p in op.posts.values()}
    for record in records:
        for source, target in _edges(record, matcher, number):
            after[source].append(target)
            before[target] += 1
    free = deque(node for node in list(after) if not before[node])
    while free:
        for node in after[free.popleft()]:
            before[node] -= 1
            if not before[node]:
                free.append(node)
    return [matcher.ops[node[1]] for node in _cycle(after, before) if node[0] == "op"]


def _edges(record: RankRecord, matcher: Matcher, number: Mapping[tuple[int, int], int]) -> Iterator[tuple[Node, Node]]:
    """A rank's order: every operation of a unit lies between the gap before it and the gap after it."""
    gap, batch = 0, 0
    for step in record.steps:
        if not isinstance(step, PostStep) or (record.rank, step.handle) not in number:
            continue
        op = matcher.ops[number[record.rank, step.handle]]
        if not rules(op.group.backend).ordered:
            continue
        if not (step.batch and step.batch == batch):
            gap += 1
        batch = step.batch
        yield ("gap", record.rank, gap), ("op", op.number, 0)
        yield ("op", op.number, 0), ("gap", record.rank, gap + 1)


def _cycle(after: Mapping[Node, list[Node]], before: Mapping[Node, int]) -> list[Node]:
    """One cycle among the nodes that still have something before them."""
    left = [node for node, count in before.items() if count]
    if not left:
        return []
    # Every node left has a predecessor that is left, so walking backwards must come round.
    previous: dict[Node, Node] = {}
    for source, targets in after.items():
        if before.get(source, 0):
            for target in targets:
                previous.setdefault(target, source)
    path: dict[Node, None] = {}
    node = left[0]
    while node not in path:
        path[node] = None
        node = previous[node]
    nodes = list(path)
    return nodes[nodes.index(node) :][::-1]
