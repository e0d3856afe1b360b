"""Which ranks can never go on: the greatest set whose members all wait for each other, or for ranks that have ended.

A wait needs operations; an operation needs the members that have not posted yet. Starting from the ranks that can act,
hope spreads backwards: an operation is hopeful when all its absent members are, a rank when all it waits for is. What
hope does not reach is stuck, even while unrelated ranks compute.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from prism.core.stage.ranks import Rank
from prism.core.stage.situation import Situation
from prism.core.stage.states import State

SURE_PROBES = 5
"""Looks in a row that must find a rank asleep on an unfinished operation before it counts as blocked."""
SURE_POLLS = 100
SURE_POLLING = 1_000_000_000
"""Failed polls in a row, and ns since the first of them, after which a rank counts as waiting for what it polls."""


@dataclass(eq=False)
class Need:
    """Something that ranks wait for: it comes once all of `of` can act, or (with `one_is_enough`) any of them."""

    of: Sequence[int]
    one_is_enough: bool = False
    waiters: list[int] = field(default_factory=list)


def stuck_ranks(seen: Situation) -> list[int]:
    """The ranks that can never go on, ascending; takes time in proportion to ranks and open operations."""
    needs: dict[object, Need] = {}
    unmet: dict[int, int] = {}
    for rank in seen.ranks.values():
        if is_waiting(seen, rank):
            unmet[rank.rank] = _collect(seen, rank, needs)
    hopeful = deque(rank.rank for rank in seen.ranks.values() if _can_act(seen, rank, unmet))
    part_of: dict[int, list[Need]] = defaultdict(list)
    anyone: list[Need] = []  # needs that any rank at all may meet
    for need in needs.values():
        if need.one_is_enough and len(need.of) == len(seen.ranks):
            anyone.append(need)
        else:
            for member in need.of:
                part_of[member].append(need)
    missing = {id(need): 1 if need.one_is_enough else len(need.of) for need in needs.values()}
    while hopeful:
        met, anyone = [*part_of.pop(hopeful.popleft(), []), *anyone], []
        for need in met:
            missing[id(need)] -= 1
            if missing[id(need)] == 0:
                for waiter in need.waiters:
                    unmet[waiter] -= 1
                    if unmet[waiter] == 0:
                        hopeful.append(waiter)
    return sorted(rank for rank, count in unmet.items() if count)


def awaited(rank: Rank) -> Sequence[int]:
    """The handles a rank waits for; for one that sleeps in a place we cannot see, the oldest it has open."""
    if rank.awaits:
        return rank.awaits
    if rank.polled in rank.open:
        return (rank.polled,)
    return rank.unfinished(rank.waits) or tuple(rank.open)[:1]


def absent(seen: Situation, rank: Rank, handle: int) -> Sequence[int]:
    """The global ranks that an open operation still waits for, of those that are here: virtual ones can act."""
    return _need(seen, rank, handle).of


def is_waiting(seen: Situation, rank: Rank) -> bool:
    """Whether the rank waits, as far as can be seen, and has nothing to do that might let it go on."""
    if seen.ledger.busy(rank.rank):
        return False
    if rank.state is State.BLOCKED:
        return True
    if rank.state not in (State.RUNNING, State.READY, State.STOPPED):
        return False
    if rank.unfinished(rank.waits):
        return True
    asleep = rank.idle_probes >= SURE_PROBES and bool(rank.open)
    return asleep or waits_for_store(seen, rank) or (_polls_only(seen, rank) and rank.polled in rank.open)


def waits_for_store(seen: Situation, rank: Rank) -> bool:
    """Whether the rank is blocked on a key of the store, or polls for one and does nothing else."""
    return rank.asks is not None or (_polls_only(seen, rank) and rank.polled == 0)


def _polls_only(seen: Situation, rank: Rank) -> bool:
    return rank.polls >= SURE_POLLS and seen.now - rank.polls_since >= SURE_POLLING


def _can_act(seen: Situation, rank: Rank, unmet: dict[int, int]) -> bool:
    return rank.state is not State.ENDED and not unmet.get(rank.rank, 0)


def _collect(seen: Situation, rank: Rank, needs: dict[object, Need]) -> int:
    """Note what a waiting rank needs; returns how many things are missing."""
    if waits_for_store(seen, rank):  # whoever can act may set any key
        if "store" not in needs:
            needs["store"] = Need(tuple(seen.ranks), one_is_enough=True)
        needs["store"].waiters.append(rank.rank)
        return 1
    count = 0
    for handle in awaited(rank):
        op = seen.exchange.find(rank.rank, handle)
        key: object = (rank.rank, handle) if op is None else op.number
        if key not in needs:
            needs[key] = _need(seen, rank, handle)
        if needs[key].of:
            needs[key].waiters.append(rank.rank)
            count += 1
    return count


def _need(seen: Situation, rank: Rank, handle: int) -> Need:
    op = seen.exchange.find(rank.rank, handle)
    if op is not None:
        return Need([member for member in op.absent if member in seen.ranks])
    posted = rank.open[handle]  # a message whose other side is not there
    members, peer = seen.exchange.members(rank.rank, posted.group), posted.call.peer
    awaited_from = [members[peer]] if peer >= 0 else [member for member in members if member != rank.rank]
    others = list(dict.fromkeys(map(seen.exchange.acting, awaited_from)))
    return Need(others if all(other in seen.ranks for other in others) else (), one_is_enough=True)
