"""Well-behaved ranks without processes: they act out programs against a world, in any order that a seed picks.

A rank has a main thread, which runs its program, and a completer, which takes in results and does sums. What it says
and what it is told travel in order, rank by rank; between ranks everything may overtake everything.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from prism.core.events import (
    Answer,
    AnyEvent,
    AnyInstruction,
    Asked,
    Call,
    Deliver,
    Delivered,
    Exited,
    Finished,
    Fold,
    Folded,
    Joined,
    Kill,
    Launch,
    Launched,
    Leave,
    Marked,
    Polled,
    Posted,
    Probe,
    Probed,
    Ref,
    Resume,
    Run,
    StoreCall,
    Suspend,
    Suspended,
    Ticked,
    Waited,
    stamp,
)
from prism.core.exchange import Capture
from prism.core.graph import OpKind
from prism.core.states import HOLDS_SLOT
from prism.core.world import World
from tests.core.actors import MS, SECOND, bytes_of

TICK = 40 * MS
TICKING = 0.1
"""Ticks among all actions: often enough that ranks are looked at and stopped."""
IDLE_TICKS = 100
"""Ticks in a row in which nobody could do anything; far more than any verdict takes."""


@dataclass(frozen=True)
class Make:
    """Make a process group."""

    group: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Post:
    """Post a call; the rank's posts are numbered by `handle`."""

    handle: int
    call: Call
    group: str


@dataclass(frozen=True)
class Wait:
    """Wait for operations: told of (`seen`), or asleep in a future that nobody can look into."""

    handles: tuple[int, ...]
    seen: bool = True


@dataclass(frozen=True)
class Poll:
    """Ask for an operation until it is done."""

    handle: int


@dataclass(frozen=True)
class Ask:
    """Call the store."""

    request: StoreCall


@dataclass(frozen=True)
class Mark:
    """End an iteration."""


Step = Make | Post | Wait | Poll | Ask | Mark
Program = list[Step]


@dataclass
class Process:
    """One rank's process: how far its program is, what it is told and has not done, what it said and nobody heard."""

    rank: int
    program: Program
    at: int = 0
    lives: bool = False
    stopped: bool = False
    halted: bool = False  # the main thread has spoken and waits for a word
    done: bool = False
    pending: set[int] = field(default_factory=set)
    delivered: list[int] = field(default_factory=list)
    inbox: deque[AnyInstruction] = field(default_factory=deque)
    work: deque[Deliver | Fold] = field(default_factory=deque)
    outbox: deque[AnyEvent] = field(default_factory=deque)

    @property
    def awaits(self) -> tuple[int, ...]:
        """Operations that the step under way needs before it can end."""
        step = self.program[self.at] if self.at < len(self.program) else None
        return tuple(h for h in step.handles if h in self.pending) if isinstance(step, Wait) else ()

    @property
    def asleep(self) -> bool:
        """Whether the main thread sleeps in a wait that nobody was told of."""
        return bool(self.awaits) and not self.program[self.at].seen

    @property
    def computes(self) -> bool:
        """Whether the main thread needs its slot."""
        return self.lives and not self.stopped and not self.halted and not self.done

    def obey(self) -> None:
        """Carry out the oldest instruction."""
        instruction = self.inbox.popleft()
        match instruction:
            case Launch():
                self.lives = True
                self.outbox.append(Launched(rank=self.rank, pid=1))
            case Run() | Answer():
                assert self.halted, f"{instruction} for rank {self.rank}, which waits for no word"
                self.halted = False
                self.at += not isinstance(self.program[self.at], Poll)
            case Deliver() | Fold():
                self.work.append(instruction)
            case Suspend() | Resume():
                self.stopped = isinstance(instruction, Suspend)
                if self.stopped:
                    self.outbox.append(Suspended(rank=self.rank))
            case Probe():
                self.outbox.append(Probed(rank=self.rank, waiting=self.asleep))
            case Leave() | Kill() if self.lives:
                self.die(code=0 if self.done else -9)

    def die(self, code: int = -9) -> None:
        """The process ends; what it said before is still heard."""
        self.lives = False
        self.outbox.append(Exited(rank=self.rank, code=code))

    def go_on(self) -> None:
        """One step of the main thread."""
        if self.at == len(self.program):
            self.done = True
            self.outbox.append(Finished(rank=self.rank, code=0))
            return
        step = self.program[self.at]
        match step:
            case Wait(seen=False):
                self.at += 1
            case Wait(handles=handles):
                self.halted = bool(self.awaits)
                self.outbox.append(Waited(rank=self.rank, handles=handles, blocks=self.halted))
                self.at += not self.halted
            case Poll(handle=handle):
                self.halted = handle in self.pending
                if self.halted:
                    self.outbox.append(Polled(rank=self.rank, handle=handle))
                self.at += not self.halted
            case Ask(request=request):
                self.halted = True
                self.outbox.append(Asked(rank=self.rank, request=request))
            case _:
                self.at += 1
                self.outbox.append(self._say(step))

    def complete(self) -> None:
        """One step of the completer."""
        item = self.work.popleft()
        if isinstance(item, Fold):
            results = [Ref("result", item.op * 4096 + i, 16) for i in range(len(item.inputs))]
            self.outbox.append(Folded(rank=self.rank, op=item.op, results=tuple(results)))
            return
        assert item.handle in self.pending, f"rank {self.rank} gets {item.handle} twice, or unasked"
        self.pending.remove(item.handle)
        self.delivered.append(item.handle)
        self.outbox.append(Delivered(rank=self.rank, handle=item.handle))

    def _say(self, step: Step) -> AnyEvent:
        match step:
            case Make(group=group, ranks=ranks):
                return Joined(rank=self.rank, group=group, ranks=ranks, backend="gloo")
            case Post(handle=handle, call=call, group=group):
                self.pending.add(handle)
                payload = None if call.kind is OpKind.BARRIER else bytes_of(self.rank, handle)
                site = f"train.py:{self.at}"
                return Posted(rank=self.rank, group=group, handle=handle, call=call, payload=payload, site=site)
            case _:
                return Marked(rank=self.rank)


class Simulation:
    """Programs, one a rank, acted out on `slots` slots; `events` is what the world heard, `told` what it said.

    With `deadly` any process may be killed at any moment.
    """

    def __init__(self, programs: Sequence[Program], slots: int, seed: int, deadly: bool = False) -> None:
        self.slots = slots
        self.exchange = Capture(range(len(programs)))
        self.world = World(range(len(programs)), slots, self.exchange, hang_after=3600 * SECOND)
        self.processes = [Process(rank, program) for rank, program in enumerate(programs)]
        self.events: list[AnyEvent] = []
        self.told: list[AnyInstruction] = []
        self._deadly = deadly
        self._random = random.Random(seed)
        self._now = 0

    def run(self) -> None:
        """Until the run is over and all processes have ended, or nobody can do anything any more."""
        self._pass_on(self.world.start())
        idle = 0
        while (not self.world.over or self.world.alive) and idle < IDLE_TICKS:
            actions = self._actions()
            if not actions or self._random.random() < TICKING:
                idle = 0 if actions else idle + 1
                self._now += TICK
                self._hear(Ticked(rank=-1))
            else:
                idle = 0
                self._random.choice(actions)()
                computing = [p.rank for p in self.processes if p.computes and not p.asleep]
                assert len(computing) <= self.slots, f"{computing} compute on {self.slots} slots"

    def _actions(self) -> list[Callable[[], None]]:
        actions: list[Callable[[], None]] = []
        for process in self.processes:
            if self._deadly and process.lives and not process.done and self._random.random() < 0.02:
                actions.append(process.die)
            if process.outbox:
                actions.append(lambda p=process: self._hear(p.outbox.popleft()))
            if process.inbox:
                actions.append(process.obey)
            if process.work and process.lives and not process.stopped:
                actions.append(process.complete)
            if process.computes and not process.asleep:
                actions.append(process.go_on)
        return actions

    def _hear(self, event: AnyEvent) -> None:
        stamp(event, self._now)
        self.events.append(event)
        self._pass_on(self.world.handle(event))
        if self.world.over:
            return
        holding = sum(rank.state in HOLDS_SLOT for rank in self.world.ranks.values())
        assert holding + self.world.slots.free == self.slots, f"{holding} hold slots, {self.world.slots.free} are free"

    def _pass_on(self, instructions: Sequence[AnyInstruction]) -> None:
        self.told += instructions
        for instruction in instructions:
            self.processes[instruction.rank].inbox.append(instruction)
