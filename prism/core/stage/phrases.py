"""How ranks, operations and endings are called when people are told of them."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence

from prism.core.diagnosis import SEPARATOR
from prism.core.events import Posted
from prism.core.graph import OpKind
from prism.core.stage.op import Op
from prism.core.stage.ranks import Rank
from prism.core.stage.situation import Situation
from prism.core.stage.stuck import absent, awaited, waits_for_store

TOLD = 6
"""How many different situations a summary spells out; all ranks are in the diagnosis itself."""
LONGEST = 300
"""Characters of what a program says of its end that a summary repeats; all of it is in the traceback and the log."""
TRACEBACK = "Traceback (most recent call last)"
"""What begins one, in Python."""


def ranks(numbers: Sequence[int]) -> str:
    """`rank 3`, or `ranks 0, 2-5`."""
    runs: list[list[int]] = []
    for rank in sorted(numbers):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    text = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
    return f"rank {text}" if len(numbers) == 1 else f"ranks {text}"


def by_text(pairs: Iterable[tuple[str, int]]) -> list[tuple[str, list[int]]]:
    """Equal texts once, each with its ranks, in the order in which they first come."""
    told: dict[str, list[int]] = {}
    for text, rank in pairs:
        told.setdefault(text, []).append(rank)
    return list(told.items())


def situations(seen: Situation, waiting: Iterable[Rank]) -> str:
    """Who waits in what and for whom, equal situations told once."""
    told = by_text((situation(seen, r), r.rank) for r in waiting)
    parts = [f"{ranks(who)} {'wait' if len(who) > 1 else 'waits'} {text}" for text, who in told]
    more = f"; and {len(parts) - TOLD} more" if len(parts) > TOLD else ""
    return "; ".join(parts[:TOLD]) + more


def situation(seen: Situation, rank: Rank) -> str:
    """What one rank waits in and for whom."""
    if waits_for_store(seen, rank):
        return f"for {keys(seen, rank)} at {place(rank.site)}"
    handle = awaited(rank)[0]
    posted = rank.open[handle]
    op = seen.exchange.find(rank.rank, handle)
    if posted.call.kind is OpKind.SEND_RECV:
        return _message(seen, rank, posted, op)
    missing = list(absent(seen, rank, handle))
    lacking = f", which {ranks(missing)} {'have' if len(missing) > 1 else 'has'} not posted" if missing else ""
    members = op.members if op is not None else ()
    virtual = [member for member in members if seen.exchange.acting(member) not in seen.ranks]
    played = f"; {ranks(virtual)} of it {'are' if len(virtual) > 1 else 'is'} virtual" if virtual else ""
    number = f"operation {op.seq + 1} of" if op is not None else "on"
    return f"in {posted.call.name}, {number} group {posted.group}, {_where(rank, posted)}{lacking}{played}"


def _message(seen: Situation, rank: Rank, posted: Posted, op: Op | None) -> str:
    members = seen.exchange.members(rank.rank, posted.group)
    peer = _peer(seen, members[posted.call.peer]) if posted.call.peer >= 0 else "any rank"
    direction, other = ("to", "receive") if posted.call.sends else ("from", "send")
    told = f"in {posted.call.name} {direction} {peer} {_where(rank, posted)}"
    acting = seen.exchange.acting(members[posted.call.peer]) if posted.call.peer >= 0 else rank.rank
    if acting not in seen.ranks:
        return f"{told}, which is virtual"
    return f"{told}, which has no matching {other}" if op is None or op.absent else told


def _peer(seen: Situation, rank: int) -> str:
    acting = seen.exchange.acting(rank)
    return f"rank {rank}" + (f" (for which rank {acting} stands)" if acting != rank else "")


def _where(rank: Rank, posted: Posted) -> str:
    """Where an operation was posted, and where it is waited for if that is another line."""
    waited = f" (waited for at {place(rank.site)})" if rank.site != posted.site else ""
    return f"at {place(posted.site)}{waited}"


def keys(seen: Situation, rank: Rank) -> str:
    """The store keys that a rank waits for, without the prefixes that torch puts before them."""
    if rank.asks is None:
        return "a store key, asked for again and again"
    missing = [key.rpartition("//")[2] for key in seen.exchange.missing(rank.asks)]
    return f"store key{'s' if len(missing) > 1 else ''} {', '.join(missing)}"


def place(site: str) -> str:
    """A call site: the innermost line, and who called there."""
    inner, *callers = site.split(SEPARATOR)
    called = f" (called from {', '.join(callers)})" if callers else ""
    return (inner or "?") + called


def operation(op: Op) -> str:
    """Which operation it is, for the start of a sentence."""
    if op.call.kind is OpKind.SEND_RECV:
        return f"a message on group {op.group.name}"
    return f"operation {op.seq + 1} of group {op.group.name}"


def ending(rank: Rank) -> str:
    """How a rank came to its end."""
    if rank.error:
        return f"raised {one_line(rank.error)}" + (f" at {place(rank.site)}" if rank.site else "")
    code = rank.code or 0
    early = " before it had done what was captured of it" if code == 0 else ""
    said = f": {one_line(rank.said)}" if rank.said else ""
    return f"{exited(code)}{early}{said}{last_seen(rank)}"


def last_seen(rank: Rank) -> str:
    """The line of the program where a rank was last, to follow what is told of it; "" where that is not known."""
    return f", last seen at {place(rank.site)}" if rank.site else ""


def one_line(text: str) -> str:
    """The first line of what a program says, no longer than LONGEST, `...` where more follows.

    Where a traceback follows, as of a process that the program has started, its last line is added: it says why.
    """
    first, *more = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    parts = [first[:LONGEST]]
    if more or len(first) > LONGEST:
        parts.append("...")
    if any(TRACEBACK in line for line in more):
        parts.append(more[-1][:LONGEST])
    return " ".join(parts)


def exited(code: int) -> str:
    """How a process ended, by its exit code: below 0 is a signal's."""
    if code >= 0:
        return f"ended with exit code {code}"
    known = {s.value for s in signal.Signals}
    return f"was killed by {signal.Signals(-code).name if -code in known else f'signal {-code}'}"
