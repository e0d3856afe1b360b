"""Which ranks can never go on: the greatest set whose members all wait for each other, or for ranks that have ended.

A wait needs operations; an operation needs the members that have not posted yet. Starting from the ranks that can act,
hope spreads backwards: an operation is hopeful when all its absent members are, a rank when all it waits for is. What
hope does not reach is stuck, even while unrelated ranks compute.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from prism.core.ranks import Rank
from prism.core.situation import Situation
from prism.core.states import State

SURE_PROBES = 5
"""Looks in a row that must find a rank asleep on an unfinished operation before it counts as blocked."""


@dataclass
class Need:
    """Something ranks wait for: it comes if all of `of` can act, or (with `one_is_enough`) any of them."""

    of: tuple[int, ...]
    one_is_enough: bool = False


def stuck_ranks(seen: Situation) -> list[int]:
    """The ranks that can never go on, ascending."""
    waiting = {r.rank: needs(seen, r) for r in seen.ranks.values() if _is_waiting(seen, r)}
    hopeful = deque(r.rank for r in seen.ranks.values() if r.rank not in waiting and r.state is not State.ENDED)
    dependents: dict[int, list[tuple[int, int]]] = defaultdict(list)  # rank -> needs (of whom, which) it is part of
    missing: dict[tuple[int, int], int] = {}
    unmet = {rank: len(of_rank) for rank, of_rank in waiting.items()}
    for rank, of_rank in waiting.items():
        for number, need in enumerate(of_rank):
            missing[rank, number] = 1 if need.one_is_enough else len(need.of)
            for other in need.of:
                dependents[other].append((rank, number))
        if not of_rank:
            hopeful.append(rank)
    while hopeful:
        for key in dependents[hopeful.popleft()]:
            missing[key] -= 1
            if missing[key] == 0:
                unmet[key[0]] -= 1
                if unmet[key[0]] == 0:
                    hopeful.append(key[0])
    return sorted(rank for rank, count in unmet.items() if count)


def needs(seen: Situation, rank: Rank) -> list[Need]:
    """What a waiting rank needs, one entry for each thing that is still missing."""
    others = tuple(r for r in seen.ranks if r != rank.rank)
    if rank.asks is not None:
        return [Need(others, one_is_enough=True)]
    return [need for handle in awaited(rank) if (need := _need(seen, rank, handle)) is not None]


def awaited(rank: Rank) -> Sequence[int]:
    """The handles a rank is blocked on; for one that sleeps in a place we cannot see, the oldest it has open."""
    return rank.awaits or tuple(rank.open)[:1]


def absent(seen: Situation, rank: Rank, handle: int) -> Iterable[int]:
    """The global ranks that an open operation still waits for."""
    need = _need(seen, rank, handle)
    return need.of if need is not None else ()


def _need(seen: Situation, rank: Rank, handle: int) -> Need | None:
    op = seen.exchange.find(rank.rank, handle)
    if op is None:  # a message whose other side is not there
        posted = rank.open[handle]
        members = seen.exchange.members(rank.rank, posted.group)
        if posted.call.peer >= 0:
            return Need((members[posted.call.peer],))
        return Need(tuple(m for m in members if m != rank.rank), one_is_enough=True)
    return Need(tuple(op.absent)) if op.absent else None


def _is_waiting(seen: Situation, rank: Rank) -> bool:
    if seen.ledger.busy(rank.rank) and not seen.ledger.of("probe", rank.rank):
        return False
    if rank.state is State.BLOCKED:
        return True
    asleep = rank.idle_probes >= SURE_PROBES and rank.open
    return bool(asleep) and rank.state in (State.RUNNING, State.STOPPED)
