"""The states of one logical rank, as a table.

Theory of operation. A rank holds a *slot* while its process may compute; there are fewer slots than ranks. It gives the
slot up where it cannot go on by itself, and gets one again when it can:

    new        not started; no process
    launching  a slot is given, the process is being made
    running    holds a slot and computes
    blocked    waits for operations, or for a key of the store; holds no slot
    ready      could go on and waits for a slot
    stopped    was stopped in mid-computation to let others run; waits for a slot
    finishing  the program is over; the process stays while it may still be asked to do a sum
    ended      the process is gone

What moves a rank is a *trigger*: an event that came in, or a decision of the world (grant, unblock). Threads other than
the main one may post, fold and deliver while the main thread is blocked, and what a process said before it was stopped
is heard afterwards; that is why most rows allow most triggers. What a row lacks cannot happen: InvalidTransition.
"""

from __future__ import annotations

import enum

from prism.errors import InvalidTransition


class State(enum.Enum):
    """Where a rank is; see the module's text."""

    NEW = "new"
    LAUNCHING = "launching"
    RUNNING = "running"
    BLOCKED = "blocked"
    READY = "ready"
    STOPPED = "stopped"
    FINISHING = "finishing"
    ENDED = "ended"


class Trigger(enum.Enum):
    """What may move a rank; the first three are decisions of the world, the others come with events."""

    GRANT = "grant"
    UNBLOCK = "unblock"
    BLOCK = "block"
    LAUNCHED = "launched"
    SPEAK = "speak"  # joined, posted, marked, a wait that does not block: the rank goes on
    WORK = "work"  # folded, delivered, completed, probed: said by other threads or about them
    YIELD = "yield"
    SUSPENDED = "suspended"
    RAISED = "raised"
    FINISHED = "finished"
    EXITED = "exited"


_S, _T = State, Trigger

TRANSITIONS: dict[State, dict[Trigger, State]] = {
    _S.NEW: {_T.GRANT: _S.LAUNCHING},
    _S.LAUNCHING: {_T.LAUNCHED: _S.RUNNING, _T.EXITED: _S.ENDED},
    _S.RUNNING: {
        _T.SPEAK: _S.RUNNING, _T.WORK: _S.RUNNING, _T.BLOCK: _S.BLOCKED, _T.YIELD: _S.READY, _T.RAISED: _S.RUNNING,
        _T.SUSPENDED: _S.STOPPED, _T.FINISHED: _S.FINISHING, _T.EXITED: _S.ENDED,
    },
    _S.BLOCKED: {
        _T.UNBLOCK: _S.READY, _T.SPEAK: _S.BLOCKED, _T.WORK: _S.BLOCKED, _T.SUSPENDED: _S.BLOCKED,
        _T.RAISED: _S.BLOCKED, _T.EXITED: _S.ENDED,
    },
    _S.READY: {
        _T.GRANT: _S.RUNNING, _T.SPEAK: _S.READY, _T.WORK: _S.READY, _T.SUSPENDED: _S.READY, _T.RAISED: _S.READY,
        _T.EXITED: _S.ENDED,
    },
    _S.STOPPED: {_T.GRANT: _S.RUNNING, _T.SPEAK: _S.STOPPED, _T.WORK: _S.STOPPED, _T.EXITED: _S.ENDED},
    _S.FINISHING: {
        _T.SPEAK: _S.FINISHING, _T.WORK: _S.FINISHING, _T.SUSPENDED: _S.FINISHING, _T.RAISED: _S.FINISHING,
        _T.EXITED: _S.ENDED,
    },
    _S.ENDED: {_T.SUSPENDED: _S.ENDED, _T.WORK: _S.ENDED, _T.EXITED: _S.ENDED},
}  # fmt: skip

HOLDS_SLOT = frozenset({State.LAUNCHING, State.RUNNING})
"""States in which a rank occupies a slot."""

WANTS_SLOT = frozenset({State.NEW, State.READY, State.STOPPED})
"""States in which a rank stands in line for a slot."""

ACTS = HOLDS_SLOT | WANTS_SLOT
"""States in which a rank goes on by itself, now or as soon as a slot is free."""


def step(state: State, trigger: Trigger, story: str) -> State:
    """The state that follows, or InvalidTransition with `story`, the text of what led here."""
    try:
        return TRANSITIONS[state][trigger]
    except KeyError:
        legal = ", ".join(t.value for t in TRANSITIONS[state])
        raise InvalidTransition(
            f"{trigger.value!r} is not a row of state {state.value!r} (it has {legal}); {story}"
        ) from None


def diagram() -> str:
    """The table as a Mermaid state diagram, rows in the table's order."""
    lines = ["stateDiagram-v2", "    [*] --> new"]
    for state, row in TRANSITIONS.items():
        targets: dict[State, list[str]] = {}
        for trigger, target in row.items():
            targets.setdefault(target, []).append(trigger.value)
        lines += [f"    {state.value} --> {target.value}: {', '.join(names)}" for target, names in targets.items()]
    return "\n".join([*lines, "    ended --> [*]", ""])
