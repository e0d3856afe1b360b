"""The verdict on a run that cannot go well: what happened, to whom, in which operation, at which line."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence

from prism.core.answers import Diverged
from prism.core.diagnosis import Diagnosis, LastCommon, RankState
from prism.core.graph import OpKind
from prism.core.matching import CommGroup, Op
from prism.core.ranks import Rank
from prism.core.situation import Situation
from prism.core.states import State
from prism.core.stuck import absent, awaited, stuck_ranks

GRACE = 500_000_000
"""ns for other ranks to come to rest after the first trouble, so that the diagnosis shows where they stand."""
TOLD = 6
"""How many different situations a summary spells out; all ranks are in the diagnosis itself."""


def inevitable(seen: Situation) -> Diagnosis | None:
    """The diagnosis once the run cannot end well, else None."""
    at_rest = seen.acting == 0 or (seen.troubled is not None and seen.now - seen.troubled >= GRACE)
    if seen.failed:
        return _rank_failed(seen) if at_rest or _only_the_failed_act(seen) else None
    broken = seen.exchange.broken
    if broken is not None:
        return _mismatch(seen, broken) if at_rest or broken.complete else None
    stuck = stuck_ranks(seen)
    if stuck:
        return _deadlock(seen, stuck)
    silent = [r for r in seen.ranks.values() if r.state is State.RUNNING and seen.now - r.heard >= seen.hang_after]
    return _hang(seen, silent) if silent else None


def diverged(seen: Situation, error: Diverged) -> Diagnosis:
    """A rank did not repeat what was captured."""
    return Diagnosis(kind="diverged", summary=str(error), ranks=[_state(seen, seen.ranks[error.rank])])


def _only_the_failed_act(seen: Situation) -> bool:
    acting = [r for r in seen.ranks.values() if r.state in (State.LAUNCHING, State.RUNNING, State.READY)]
    return all(r.rank in seen.failed for r in acting)


def _rank_failed(seen: Situation) -> Diagnosis:
    first = [seen.ranks[rank] for rank in sorted(seen.failed, key=lambda rank: (seen.failed[rank], rank))]
    told = "; ".join(f"rank {r.rank} {_ending(r)}" for r in first[:TOLD])
    rest = [r for r in seen.ranks.values() if r.rank not in seen.failed]
    waiting = _situations(seen, [r for r in rest if r.state is State.BLOCKED])
    summary = told + (f"; then {waiting}" if waiting else "")
    return Diagnosis(
        kind="oom" if "OutOfMemoryError" in first[0].error else "rank_failed",
        summary=summary,
        ranks=[_state(seen, r) for r in [*first, *rest]],
    )


def _mismatch(seen: Situation, op: Op) -> Diagnosis:
    posts = sorted(op.posts.values(), key=lambda post: post.rank)
    sites = _by_text((f"{p.call.name} of {p.call.count} x {p.call.dtype} at {p.site or '?'}", p.rank) for p in posts)
    sides = "; ".join(f"{_ranks(ranks)} posted {text}" for text, ranks in sites[:TOLD])
    states = [
        RankState(
            rank=p.rank, state="posted", op=p.call.name, group=op.group.name, seq=op.seq + 1, callsite=p.site or None
        )
        for p in posts
    ]
    return Diagnosis(
        kind="mismatch",
        summary=f"{_operation(op)}: {op.broken}; {sides}",
        ranks=states + [_state(seen, r) for r in seen.ranks.values() if r.rank not in {p.rank for p in posts}],
        last_common=_last_common(seen, op.group),
    )


def _deadlock(seen: Situation, stuck: Sequence[int]) -> Diagnosis:
    ranks = [seen.ranks[rank] for rank in stuck]
    gone = {m for r in ranks for h in awaited(r) if r.asks is None for m in absent(seen, r, h)}
    ended = [r for r in seen.ranks.values() if r.rank in gone and r.state is State.ENDED]
    told = [_situations(seen, ranks), *(f"rank {r.rank} has ended (exit code {r.code})" for r in ended)]
    others = [r for r in seen.ranks.values() if r.rank not in stuck]
    group = _group_of(seen, ranks)
    return Diagnosis(
        kind="deadlock",
        summary="; ".join(told),
        ranks=[_state(seen, r) for r in [*ranks, *others]],
        last_common=_last_common(seen, group) if group else None,
        cycle=_cycle(seen, stuck),
    )


def _hang(seen: Situation, silent: Sequence[Rank]) -> Diagnosis:
    seconds = seen.hang_after // 1_000_000_000
    summary = f"{_ranks([r.rank for r in silent])} posted nothing and did not end for {seconds} s"
    others = [r for r in seen.ranks.values() if r not in silent]
    waiting = _situations(seen, [r for r in others if r.state is State.BLOCKED])
    summary += f"; {waiting}" if waiting else ""
    return Diagnosis(kind="hang", summary=summary, ranks=[_state(seen, r) for r in [*silent, *others]])


def _cycle(seen: Situation, stuck: Sequence[int]) -> list[int] | None:
    """A circle of ranks each of which waits for the next, lowest first; None where somebody waits for an ended rank."""
    path: list[int] = []
    rank = stuck[0]
    while rank not in path:
        path.append(rank)
        who = seen.ranks[rank]
        following = [m for h in awaited(who) if who.asks is None for m in absent(seen, who, h) if m in stuck]
        if not following:
            return None
        rank = following[0]
    circle = path[path.index(rank) :]
    lowest = circle.index(min(circle))
    return circle[lowest:] + circle[:lowest]


def _state(seen: Situation, rank: Rank) -> RankState:
    if rank.rank in seen.failed:
        return RankState(
            rank=rank.rank, state=_ending(rank), callsite=rank.site or None, traceback=rank.traceback or None
        )
    if rank.asks is not None:
        keys = ", ".join(rank.asks.keys)
        return RankState(rank=rank.rank, state=f"waits for store key {keys}", callsite=rank.site or None)
    handles = awaited(rank)
    if not handles or rank.state not in (State.BLOCKED, State.RUNNING, State.STOPPED):
        return RankState(rank=rank.rank, state=rank.state.value, callsite=rank.site or None)
    posted = rank.open[handles[0]]
    op = seen.exchange.find(rank.rank, posted.handle)
    seq = op.seq + 1 if op is not None and posted.call.kind is not OpKind.SEND_RECV else None
    return RankState(
        rank=rank.rank,
        state="waiting" if rank.state is State.BLOCKED or rank.idle_probes else rank.state.value,
        op=posted.call.name,
        group=posted.group,
        seq=seq,
        callsite=posted.site or None,
    )


def _situations(seen: Situation, ranks: Iterable[Rank]) -> str:
    """Who waits in what and for whom, equal situations told once."""
    told = _by_text((_situation(seen, r), r.rank) for r in ranks)
    parts = [f"{_ranks(who)} {'wait' if len(who) > 1 else 'waits'} {text}" for text, who in told]
    more = f"; and {len(parts) - TOLD} more" if len(parts) > TOLD else ""
    return "; ".join(parts[:TOLD]) + more


def _situation(seen: Situation, rank: Rank) -> str:
    if rank.asks is not None:
        return f"for store key {', '.join(rank.asks.keys)} at {rank.site or '?'}"
    handle = awaited(rank)[0]
    posted = rank.open[handle]
    op = seen.exchange.find(rank.rank, handle)
    where = f"at {posted.site or '?'}"
    missing = list(absent(seen, rank, handle))
    lacking = f", which {_ranks(missing)} {'have' if len(missing) > 1 else 'has'} not posted" if missing else ""
    if posted.call.kind is OpKind.SEND_RECV:
        peers = seen.exchange.members(rank.rank, posted.group)
        peer = peers[posted.call.peer] if posted.call.peer >= 0 else "any rank"
        direction = "to" if posted.call.sends else "from"
        other = "receive" if posted.call.sends else "send"
        return f"in {posted.call.name} {direction} rank {peer} {where}, which has no matching {other}"
    number = f"operation {op.seq + 1} of" if op is not None else "on"
    return f"in {posted.call.name}, {number} group {posted.group}, {where}{lacking}"


def _operation(op: Op) -> str:
    if op.call.kind is OpKind.SEND_RECV:
        return f"a message on group {op.group.name}"
    return f"operation {op.seq + 1} of group {op.group.name}"


def _group_of(seen: Situation, ranks: Sequence[Rank]) -> CommGroup | None:
    for rank in ranks:
        for handle in awaited(rank):
            op = seen.exchange.find(rank.rank, handle)
            if op is not None and op.call.kind is not OpKind.SEND_RECV:
                return op.group
    return None


def _last_common(seen: Situation, group: CommGroup) -> LastCommon | None:
    op = seen.exchange.last_common(group)
    return LastCommon(op=op.call.name, group=group.name, seq=op.seq + 1) if op else None


def _ending(rank: Rank) -> str:
    if rank.error:
        return f"raised {rank.error}" + (f" at {rank.site}" if rank.site else "")
    code = rank.code or 0
    if code >= 0:
        return f"ended with exit code {code}"
    known = {s.value for s in signal.Signals}
    return f"was killed by {signal.Signals(-code).name if -code in known else f'signal {-code}'}"


def _by_text(pairs: Iterable[tuple[str, int]]) -> list[tuple[str, list[int]]]:
    told: dict[str, list[int]] = {}
    for text, rank in pairs:
        told.setdefault(text, []).append(rank)
    return list(told.items())


def _ranks(ranks: Sequence[int]) -> str:
    """`rank 3`, or `ranks 0, 2-5`."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    text = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
    return f"rank {text}" if len(ranks) == 1 else f"ranks {text}"
