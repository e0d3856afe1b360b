"""One logical rank as the world sees it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from prism.core.events import Posted, StoreCall
from prism.core.states import State, Trigger, step
from prism.core.store import Reply

STORY_LENGTH = 12
"""How many of a rank's last transitions an error tells."""


@dataclass
class Rank:
    """A rank's state, what it has posted and not got back, and what it waits for."""

    rank: int
    state: State = State.NEW
    open: dict[int, Posted] = field(default_factory=dict)  # posted and not done, by handle
    awaits: tuple[int, ...] = ()  # handles it is blocked on
    asks: StoreCall | None = None  # store call it is blocked on
    reply: Reply | None = None  # what it gets with its next slot, instead of a bare Run
    heard: int = 0  # ns: when it last said something, or got a slot
    spoke: int = 0  # ns: when it last did more than poll
    polled: tuple[int, StoreCall | None] | None = None  # what it asks for again and again: a handle, or a store call
    polls: int = 0  # how often in a row
    site: str = ""  # the last line of the program it was seen at
    idle_probes: int = 0  # looks in a row at which its main thread slept on an unfinished operation
    suspending: bool = False
    code: int | None = None  # how its program or process ended
    error: str = ""
    traceback: str = ""
    cut: bool = False
    peak_bytes: int | None = None
    iterations: int = 0
    switches: int = 0  # times it got a slot back after its start
    story: deque[str] = field(default_factory=lambda: deque(maxlen=STORY_LENGTH))

    def move(self, trigger: Trigger, cause: int) -> State:
        """Follow the table; returns the state before."""
        before = self.state
        self.state = step(before, trigger, f"rank {self.rank}: {'; '.join(self.story) or 'nothing before'}")
        self.story.append(f"#{cause} {trigger.value}: {before.value} -> {self.state.value}")
        return before

    @property
    def alive(self) -> bool:
        """Whether the rank has a process."""
        return self.state not in (State.NEW, State.ENDED)

    def unfinished(self, handles: tuple[int, ...]) -> tuple[int, ...]:
        """Those of the handles whose operations are not done."""
        return tuple(h for h in handles if h in self.open)
