"""Random programs that can run: all ranks take part in one sequence of operations, each at its own pace.

Every rank posts its operations in the order of the sequence and waits only for what it has posted, so some member of
the first operation that is not done can always go on.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from prism.core.calls import Call, StoreCall
from prism.core.graph import OpKind
from tests.core.actors import all_reduce, barrier, call, recv, send
from tests.core.processes import Ask, Make, Mark, Poll, Post, Program, Wait


@dataclass
class _Rank:
    program: Program = field(default_factory=list)
    handles: int = 0
    open: list[int] = field(default_factory=list)  # posted, not waited for

    def post(self, of: Call, group: str) -> None:
        self.handles += 1
        self.open.append(self.handles)
        self.program.append(Post(self.handles, of, group))


def random_programs(seed: int, size: int, polls: bool = False, unseen: bool = False) -> list[Program]:
    """One program a rank, with or without loops that poll and waits that nobody is told of."""
    choose = random.Random(seed)
    ranks = [_Rank() for _ in range(size)]
    groups = _make_groups(choose, ranks)
    for number in range(choose.randint(1, 12)):
        match choose.randrange(6):
            case 0 | 1 | 2:
                name, members = choose.choice(groups)
                for member, of in enumerate(_collective(choose, len(members))):
                    ranks[members[member]].post(of, name)
            case 3:
                sender, receiver = choose.sample(range(size), 2)
                tag = choose.randrange(2)
                ranks[sender].post(send(to=receiver, tag=tag), "default")
                ranks[receiver].post(recv(source=sender, tag=tag), "default")
            case 4:
                setter, *getters = choose.sample(range(size), choose.randint(1, size))
                ranks[setter].program.append(Ask(StoreCall("set", (f"key{number}",), b"value")))
                for rank in getters:
                    ranks[rank].program.append(Ask(StoreCall("get", (f"key{number}",)), main=choose.random() < 0.7))
            case 5:
                ranks[choose.randrange(size)].program.append(Mark())
        for rank in ranks:
            _wait(choose, rank, polls, unseen)
    for rank in ranks:
        rank.program.append(Wait(tuple(range(1, rank.handles + 1))))  # some of them for the second time
    return [rank.program for rank in ranks]


def skip_one_post(programs: list[Program], seed: int) -> list[Program]:
    """The same programs, but one rank leaves one of its posts out, and the waits for it."""
    choose = random.Random(seed)
    posts = [(rank, step) for rank, program in enumerate(programs) for step in program if isinstance(step, Post)]
    rank, skipped = choose.choice(posts)
    changed: Program = []
    for step in programs[rank]:
        if isinstance(step, Wait):
            changed.append(replace(step, handles=tuple(h for h in step.handles if h != skipped.handle)))
        elif step is not skipped:
            changed.append(step)
    return [*programs[:rank], changed, *programs[rank + 1 :]]


def _make_groups(choose: random.Random, ranks: list[_Rank]) -> list[tuple[str, tuple[int, ...]]]:
    """The default group, and two of one name that share no member; all but those of one rank are for use."""
    size = len(ranks)
    half = tuple(sorted(choose.sample(range(size), size // 2)))
    rest = tuple(rank for rank in range(size) if rank not in half)
    groups = [("default", tuple(range(size))), ("half", half), ("half", rest)]
    for name, members in groups:
        for member in members:
            ranks[member].program.append(Make(name, members))
    return [group for group in groups if len(group[1]) > 1]


def _collective(choose: random.Random, size: int) -> list[Call]:
    """One collective that all members agree on, as each of them calls it."""
    match choose.randrange(5):
        case 0:
            return [all_reduce(choose.choice([1, 4]))] * size
        case 1:
            return [barrier()] * size
        case 2:
            return [call(OpKind.BROADCAST, root=choose.randrange(size))] * size
        case 3:
            counts = [choose.randrange(4) for _ in range(size)]
            return [call(OpKind.ALL_GATHER, count, recv=tuple(counts)) for count in counts]
        case _:
            rows = [tuple(choose.randrange(3) for _ in range(size)) for _ in range(size)]
            columns = list(zip(*rows, strict=True))
            return [call(OpKind.ALL_TO_ALL, sum(rows[m]), send=rows[m], recv=columns[m]) for m in range(size)]


def _wait(choose: random.Random, rank: _Rank, polls: bool, unseen: bool) -> None:
    """Wait for some of what is open, or for none."""
    if not rank.open or choose.random() < 0.5:
        return
    some = tuple(sorted(choose.sample(rank.open, choose.randint(1, len(rank.open)))))
    if polls and choose.random() < 0.3:
        rank.program.append(Poll(some[0]))
        some = some[:1]
    else:
        rank.program.append(Wait(some, seen=not (unseen and choose.random() < 0.3)))
    rank.open = [handle for handle in rank.open if handle not in some]
