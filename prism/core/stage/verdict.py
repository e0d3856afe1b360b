"""The verdict on a run that cannot go well: what happened, to whom, in which operation, at which line."""

from __future__ import annotations

from collections.abc import Sequence

from prism.core.diagnosis import Diagnosis, LastCommon, RankState, innermost
from prism.core.graph import OpKind
from prism.core.stage import phrases
from prism.core.stage.agreement import disagreement
from prism.core.stage.answers import Diverged
from prism.core.stage.op import CommGroup, Op
from prism.core.stage.ranks import Rank
from prism.core.stage.situation import Situation
from prism.core.stage.states import ACTS, State
from prism.core.stage.stuck import absent, awaited, is_waiting, stuck_ranks, waits_for_store

GRACE = 500_000_000
"""ns for other ranks to come to rest after the first trouble, so that the diagnosis shows where they stand."""


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
    silent = [r for r in seen.ranks.values() if r.alive and r.idle_for(seen.now) >= seen.hang_after]
    if not silent and seen.now - seen.heard >= seen.hang_after:
        silent = [r for r in seen.ranks.values() if _owes(seen, r)]
    return _hang(seen, silent) if silent else None


def _owes(seen: Situation, rank: Rank) -> bool:
    """Whether a rank that holds no slot was told to do something: it would have, unless it is stopped from outside."""
    return rank.alive and (seen.ledger.busy(rank.rank) or rank.state in (State.LAUNCHING, State.FINISHING))


def diverged(seen: Situation, error: Diverged) -> Diagnosis:
    """A rank did not repeat what was captured."""
    return Diagnosis(kind="diverged", summary=str(error), ranks=[_state(seen, seen.ranks[error.rank])])


def never_begun(seen: Situation, reason: str, traceback: str) -> Diagnosis:
    """What all ranks need before they begin is not to be had: each has raised, so to speak."""
    states = [RankState(rank=rank, state=State.NEW.value, traceback=traceback) for rank in seen.ranks]
    return Diagnosis(kind="rank_failed", summary=phrases.one_line(reason), ranks=states)


def _only_the_failed_act(seen: Situation) -> bool:
    return all(r.rank in seen.failed for r in seen.ranks.values() if r.state in ACTS and r.state is not State.NEW)


def _rank_failed(seen: Situation) -> Diagnosis:
    first = [seen.ranks[rank] for rank in sorted(seen.failed, key=lambda rank: (seen.failed[rank], rank))]
    endings = phrases.by_text((phrases.ending(r), r.rank) for r in first)
    told = "; ".join(f"{phrases.ranks(ranks)} {text}" for text, ranks in endings[: phrases.TOLD])
    rest = [r for r in seen.ranks.values() if r.rank not in seen.failed]
    waiting = phrases.situations(seen, [r for r in rest if r.state is State.BLOCKED])
    summary = told + (f"; then {waiting}" if waiting else "")
    return Diagnosis(
        kind="oom" if "OutOfMemoryError" in first[0].error else "rank_failed",
        summary=summary,
        ranks=[_state(seen, r) for r in [*first, *rest]],
    )


def _mismatch(seen: Situation, op: Op) -> Diagnosis:
    posts = sorted(op.posts.values(), key=lambda post: post.rank)
    sites = phrases.by_text(
        (f"{p.call.name} of {p.call.count} x {p.call.dtype} at {phrases.place(p.site)}", p.rank) for p in posts
    )
    sides = "; ".join(f"{phrases.ranks(ranks)} posted {text}" for text, ranks in sites[: phrases.TOLD])
    seq = None if op.call.kind is OpKind.SEND_RECV else op.seq + 1
    states = [
        RankState(rank=p.rank, state="posted", op=p.call.name, group=op.group.name, seq=seq, callsite=innermost(p.site))
        for p in posts
    ]
    return Diagnosis(
        kind="mismatch",
        summary=f"{phrases.operation(op)}: {disagreement(op)}; {sides}",
        ranks=states + [_state(seen, r) for r in seen.ranks.values() if r.rank not in {p.rank for p in posts}],
        last_common=_last_common(seen, op.group),
    )


def _deadlock(seen: Situation, stuck: Sequence[int]) -> Diagnosis:
    ranks = [seen.ranks[rank] for rank in stuck]
    gone = {m for r in ranks for h in awaited(r) if not waits_for_store(seen, r) for m in absent(seen, r, h)}
    ended = [r for r in seen.ranks.values() if r.rank in gone and r.state is State.ENDED]
    left = (f"rank {r.rank} has ended (exit code {r.code}){phrases.last_seen(r)}" for r in ended)
    told = [phrases.situations(seen, ranks), *left]
    members = frozenset(stuck)
    others = [r for r in seen.ranks.values() if r.rank not in members]
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
    waiting = [r for r in seen.ranks.values() if r.state is State.BLOCKED or is_waiting(seen, r)]
    placed = {r.rank for r in waiting}  # where they are is told with what they wait in
    told = phrases.by_text(("" if r.rank in placed else phrases.last_seen(r), r.rank) for r in silent)
    summary = "; ".join(
        f"{phrases.ranks(who)} posted nothing and did not end for {seconds} s{where}"
        for where, who in told[: phrases.TOLD]
    )
    others = [r for r in seen.ranks.values() if r not in silent]
    summary += f"; {phrases.situations(seen, waiting)}" if waiting else ""
    return Diagnosis(kind="hang", summary=summary, ranks=[_state(seen, r) for r in [*silent, *others]])


def _cycle(seen: Situation, stuck: Sequence[int]) -> list[int] | None:
    """A circle of ranks each of which waits for the next, lowest first; None where the waits end at ended ranks."""
    members, walked = frozenset(stuck), set[int]()
    for start in stuck:
        path: dict[int, None] = {}
        rank: int | None = start
        while rank is not None and rank not in path and rank not in walked:
            path[rank] = None
            rank = _next_stuck(seen, seen.ranks[rank], members)
        if rank is not None and rank in path:
            circle = list(path)[list(path).index(rank) :]
            lowest = circle.index(min(circle))
            return circle[lowest:] + circle[:lowest]
        walked.update(path)
    return None


def _next_stuck(seen: Situation, rank: Rank, stuck: frozenset[int]) -> int | None:
    """A stuck rank that this one waits for."""
    if waits_for_store(seen, rank):
        return None
    return next((m for h in awaited(rank) for m in absent(seen, rank, h) if m in stuck), None)


def _state(seen: Situation, rank: Rank) -> RankState:
    if rank.rank in seen.failed:
        return RankState(
            rank=rank.rank,
            state=phrases.ending(rank),
            callsite=innermost(rank.site),
            traceback=rank.traceback or None,
            snapshot=rank.snapshot or None,
        )
    if waits_for_store(seen, rank):
        return RankState(rank=rank.rank, state=f"waits for {phrases.keys(seen, rank)}", callsite=innermost(rank.site))
    handles = awaited(rank)
    if not handles or not (rank.state is State.BLOCKED or is_waiting(seen, rank)):
        return RankState(rank=rank.rank, state=rank.state.value, callsite=innermost(rank.site))
    posted = rank.open[handles[0]]
    op = seen.exchange.find(rank.rank, posted.handle)
    seq = op.seq + 1 if op is not None and posted.call.kind is not OpKind.SEND_RECV else None
    return RankState(
        rank=rank.rank,
        state="waiting" if is_waiting(seen, rank) else rank.state.value,
        op=posted.call.name,
        group=posted.group,
        seq=seq,
        callsite=innermost(posted.site),
    )


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
