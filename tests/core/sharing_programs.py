"""Ranks that share devices (sharing_device) and take part in sums of several groups; some they wait for later."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from prism.core.events import Finished, Launched
from prism.core.instructions import AnyInstruction, Launch
from tests.core.actors import all_reduce, bytes_of, joined, posted, waited
from tests.core.sharing_device import Device, Process

DEFAULT = "default"


class Step(NamedTuple):
    """What a rank does next: it takes memory, or gives some back, and takes part in a sum, if a group is named."""

    takes: int
    group: str = ""
    later: bool = False  # it waits for the sum with the next one that it waits for, or at its end


@dataclass
class Programs(Device):
    """A Device whose ranks are run with Steps; `groups` are those beside the default one."""

    groups: Mapping[str, Sequence[int]] = field(default_factory=dict)
    step: dict[int, Step] = field(default_factory=dict)
    open: dict[int, list[int]] = field(default_factory=dict)

    def carry_out(self, process: Process, instruction: AnyInstruction) -> None:
        if not isinstance(instruction, Launch):
            super().carry_out(process, instruction)
            return
        rank = process.rank
        self.events += [Launched(rank=rank, pid=rank), joined(rank, range(len(self.processes)))]
        self.events += [joined(rank, ranks, name) for name, ranks in self.groups.items() if rank in ranks]
        self.go_on(process)

    def go_on(self, process: Process) -> None:
        rank = process.rank
        if process.wants:
            step = self.step[rank] = process.wants.popleft()
            process.has = max(0, process.has + min(step.takes, 0))
            process.taking = max(step.takes, 0)
            self.take(process)
        elif handles := self.open.pop(rank, []):
            self.events.append(waited(rank, *handles))
        else:
            self.events.append(Finished(rank=rank, code=0))

    def taken(self, process: Process) -> None:
        rank, step = process.rank, self.step[process.rank]
        process.has, process.taking = process.has + process.taking, 0
        if not step.group:
            self.go_on(process)
            return
        process.handle += 1
        payload = bytes_of(rank, process.handle)
        self.events.append(posted(rank, process.handle, all_reduce(), group=step.group, payload=payload))
        self.open.setdefault(rank, []).append(process.handle)
        if step.later:
            self.go_on(process)
        else:
            self.events.append(waited(rank, *self.open.pop(rank)))


def programs(luck: random.Random, ranks: int) -> tuple[dict[str, tuple[int, ...]], list[list[Step]]]:
    """Some groups, and what each rank does: sums of groups in one order, so that nobody waits for ever."""
    groups = {f"g{i}": tuple(sorted(luck.sample(range(ranks), luck.randrange(2, ranks + 1)))) for i in range(4)}
    found: list[list[Step]] = [[] for _ in range(ranks)]
    for _ in range(luck.randrange(3, 14)):
        group = luck.choice([DEFAULT, *groups])
        for rank in groups.get(group, range(ranks)):
            if luck.random() < 0.5:
                found[rank].append(Step(luck.choice((1, 2, 3, 5, -2, 0))))
            found[rank].append(Step(luck.choice((0, 0, 1, 2)), group, luck.random() < 0.3))
    return groups, found


def peak(steps: Sequence[Step]) -> int:
    """The most that a rank holds at one time."""
    holds = most = 0
    for step in steps:
        holds = max(0, holds + step.takes)
        most = max(most, holds)
    return most
