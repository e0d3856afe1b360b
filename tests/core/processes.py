"""Well-behaved ranks without processes: what their programs do, what they say, and what they do when told.

A rank has a main thread, which runs its program; a completer, which takes in results and does sums; and one thread for
each call of the store that its program does not make on the main one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from prism.core.calls import Call, Ref, StoreCall
from prism.core.events import (
    AnyEvent,
    Asked,
    Delivered,
    Exited,
    Finished,
    Folded,
    Joined,
    Launched,
    Marked,
    Polled,
    Posted,
    Probed,
    Suspended,
    Waited,
)
from prism.core.graph import OpKind
from prism.core.instructions import (
    Answer,
    AnyInstruction,
    Deliver,
    Fold,
    Kill,
    Launch,
    Leave,
    Probe,
    Resume,
    Run,
    Suspend,
)
from tests.core.actors import bytes_of


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
    """Call the store, on the main thread or on one of its own."""

    request: StoreCall
    main: bool = True


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
    calls: int = 0  # of the store
    asks: int = 0  # the number of the call that the main thread waits in
    side_asks: set[int] = field(default_factory=set)  # those that other threads wait in
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
            case Answer(call=number) if number != self.asks:
                self.side_asks.remove(number)
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
            case Ask(request=request, main=main):
                self.calls += 1
                self.outbox.append(Asked(rank=self.rank, request=request, number=self.calls, main=main))
                if main:
                    self.asks, self.halted = self.calls, True
                else:
                    self.side_asks.add(self.calls)
                    self.at += 1
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
