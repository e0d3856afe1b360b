"""One logical rank as the world sees it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from prism.core.calls import Reply, StoreCall
from prism.core.events import PeakBreakdown, Posted
from prism.core.stage.states import TRANSITIONS, State, Trigger, step

STORY_LENGTH = 12
"""How many of a rank's last transitions an error tells."""


@dataclass
class Rank:
    """A rank's state, what it has posted and not got back, and what it waits for."""

    rank: int
    state: State = State.NEW
    open: dict[int, Posted] = field(default_factory=dict)  # posted and not done, by handle
    awaits: tuple[int, ...] = ()  # handles it is blocked on
    waits: tuple[int, ...] = ()  # handles of its last wait; where it does not block, it waits by itself
    asks: StoreCall | None = None  # store call it is blocked on
    call: int = 0  # its number for that call
    reply: Reply | None = None  # what it gets with its next slot, instead of a bare Run
    since: int = 0  # ns: when it got its slot, or last did something in it
    idle: int = 0  # ns in earlier slots in which it did nothing
    site: str = ""  # the last line of the program it was seen at
    polled: int = 0  # the handle that it asks for again and again; 0 for a key of the store
    polls: int = 0  # how often in a row
    polls_since: int = 0  # ns: when that began
    idle_probes: int = 0  # looks in a row at which its main thread slept on an unfinished operation
    code: int | None = None  # how its program or process ended
    error: str = ""
    said: str = ""  # what it gave sys.exit instead of a code
    ran: int = 0  # ns: how long its main thread ran,
    queued: int = 0  # and how long it could have run and had no core
    traceback: str = ""
    cut: bool = False
    peak_bytes: int | None = None
    peak_breakdown: PeakBreakdown | None = None
    reserved_bytes: int | None = None
    snapshot: str = ""  # the file with what its memory held when it ran out
    iterations: int = 0
    switches: int = 0  # times it got a slot back after its start
    story: deque[tuple[int, Trigger, State, State]] = field(default_factory=lambda: deque(maxlen=STORY_LENGTH))

    def move(self, trigger: Trigger, cause: int) -> State:
        """Follow the table; returns the state before."""
        before = self.state
        after = TRANSITIONS[before].get(trigger)
        self.state = after if after is not None else step(before, trigger, self._told())
        self.story.append((cause, trigger, before, self.state))
        return before

    def idle_for(self, now: int) -> int:
        """For how long it has had a slot and neither posted nor waited nor ended, in ns."""
        return self.idle + (now - self.since if self.state is State.RUNNING else 0)

    @property
    def alive(self) -> bool:
        """Whether the rank has a process."""
        return self.state not in (State.NEW, State.ENDED)

    def unfinished(self, handles: tuple[int, ...]) -> tuple[int, ...]:
        """Those of the handles whose operations are not done."""
        return tuple(h for h in handles if h in self.open)

    def _told(self) -> str:
        """The last transitions."""
        moves = (f"#{cause} {by.value}: {before.value} -> {after.value}" for cause, by, before, after in self.story)
        return f"rank {self.rank}: {'; '.join(moves) or 'nothing before'}"
