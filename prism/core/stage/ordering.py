"""Orders that may hang: what a backend runs one after the other, ranks post in orders that contradict each other.

NCCL runs the collectives of a rank one after the other, whatever their groups, when their kernels fill the device; and
the messages between two ranks have one communicator, whichever way they go. There, operation A before B on one rank and
B before A on another is a deadlock that has not happened yet. Seen over all ranks: the orders of posts, put together,
have a cycle. The messages of one batch have no order among themselves.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping

from prism.core.graph import OpKind
from prism.core.record import PostStep, RankRecord
from prism.core.semantics import rules
from prism.core.stage.matching import Matcher
from prism.core.stage.op import Op

Line = tuple[int, ...]  # what runs serially on a rank: () its collectives, (a, b) its messages with one other rank
Node = tuple[int, Line, int]  # the gap before the k-th unit of a rank's line; or (-1, (), number) for an operation
OPERATION = -1


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
    return [matcher.ops[node[2]] for node in _cycle(after, before) if node[0] == OPERATION]


def _edges(record: RankRecord, matcher: Matcher, number: Mapping[tuple[int, int], int]) -> Iterator[tuple[Node, Node]]:
    """A rank's orders: every operation of a unit lies between the gap before it and the gap after it."""
    gaps: dict[Line, int] = defaultdict(int)
    batches: dict[Line, int] = defaultdict(int)
    for step in record.steps:
        if not isinstance(step, PostStep) or (record.rank, step.handle) not in number:
            continue
        op = matcher.ops[number[record.rank, step.handle]]
        ends = _ends(record.rank, step, op)
        if not rules(op.group.backend).ordered or ends == (record.rank, record.rank):
            continue
        line = tuple(sorted(ends))
        if not (step.batch and step.batch == batches[line]):
            gaps[line] += 1
        batches[line] = step.batch
        yield (record.rank, line, gaps[line]), (OPERATION, (), op.number)
        yield (OPERATION, (), op.number), (record.rank, line, gaps[line] + 1)


def _ends(rank: int, step: PostStep, op: Op) -> tuple[int, ...]:
    """The two ranks between which a message goes, as this one of them knows them; () for a collective."""
    if op.call.kind is not OpKind.SEND_RECV:
        return ()
    other = step.call.peer if step.call.peer >= 0 else step.source
    return (rank, op.group.ranks[other]) if other >= 0 else op.members


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
