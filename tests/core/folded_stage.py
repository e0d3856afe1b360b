"""Programs that look the same from every rank along some dimensions, acted out by all ranks or by representatives."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from math import prod

from prism.core.calls import Call
from prism.core.events import Joined
from prism.core.folding.roles import FoldedCapture
from prism.core.folding.shape import Folding
from prism.core.graph import OpKind
from prism.core.instructions import AnyInstruction
from prism.core.stage.world import World
from tests.core.actors import SECOND
from tests.core.processes import Make, Mark, Post, Process, Program, Wait
from tests.core.simulation import Simulation


class FoldedSimulation(Simulation):
    """The representatives of a folding acted out; `programs` are those of all ranks."""

    def __init__(self, folding: Folding, programs: Sequence[Program], seed: int) -> None:
        super().__init__(programs, 2, seed)
        ranks = folding.representatives
        self.exchange = FoldedCapture(folding)
        self.world = World(ranks, self.slots, self.exchange, hang_after=3600 * SECOND)
        self.processes = [Process(rank, programs[rank]) for rank in ranks]
        self._of = {process.rank: process for process in self.processes}
        makes = {(step.group, step.ranks) for program in programs for step in program if isinstance(step, Make)}
        for name, members in sorted(makes):
            if 0 not in members:
                self.exchange.join(Joined(rank=0, group=name, ranks=members, backend="gloo"))

    def _pass_on(self, instructions: Sequence[AnyInstruction]) -> None:
        self.told += instructions
        for instruction in instructions:
            self._of[instruction.rank].inbox.append(instruction)


class Symmetric:
    """A program for each rank of a mesh; what a rank does follows from where the others lie from it."""

    def __init__(self, folding: Folding, seed: int) -> None:
        self.mesh, self.size = dict(folding.mesh), folding.world_size
        self.dice = random.Random(seed)
        self.programs: list[Program] = [[] for _ in range(self.size)]
        self.handles = [0] * self.size
        names = list(self.mesh)
        self.groups: dict[tuple[str, ...], list[tuple[str, tuple[int, ...]]]] = {}
        self._make("default", tuple(range(self.size)))
        spans = [s for s in product((False, True), repeat=len(names)) if any(s) and not all(s)]
        number = 0
        for span in spans:
            along = tuple(name for name, here in zip(names, span, strict=True) if here)
            self.groups[along] = []
            for ranks in self._lines(along):
                number += 1
                self._make(str(number), ranks)
                self.groups[along].append((str(number), ranks))
        self.groups[tuple(names)] = [("default", tuple(range(self.size)))]

    def place(self, rank: int) -> dict[str, int]:
        found = {}
        for name in reversed(self.mesh):
            rank, found[name] = divmod(rank, self.mesh[name])
        return {name: found[name] for name in self.mesh}

    def rank(self, place: dict[str, int]) -> int:
        at = 0
        for name, extent in self.mesh.items():
            at = at * extent + place[name] % extent
        return at

    def act(self, steps: int) -> list[Program]:
        """So many random steps of all ranks; each has waited for all it has begun before the last."""
        for _ in range(steps):
            self.dice.choice((self._reduce, self._reduce, self._gather, self._exchange, self._message, self._wait))()
        self._wait()
        return self.programs

    def _lines(self, along: tuple[str, ...]) -> list[tuple[int, ...]]:
        lines: dict[tuple[int, ...], list[int]] = {}
        for rank in range(self.size):
            fixed = tuple(at for name, at in self.place(rank).items() if name not in along)
            lines.setdefault(fixed, []).append(rank)
        return [tuple(line) for line in lines.values()]

    def _make(self, name: str, ranks: tuple[int, ...]) -> None:
        for rank in ranks:
            self.programs[rank].append(Make(name, ranks))

    def _post(self, rank: int, group: str, call: Call) -> None:
        self.handles[rank] += 1
        self.programs[rank].append(Post(self.handles[rank], call, group))

    def _collective(self, make) -> None:
        along = self.dice.choice(list(self.groups))
        for name, ranks in self.groups[along]:
            for member, rank in enumerate(ranks):
                self._post(rank, name, make(member, ranks))

    def _reduce(self) -> None:
        count = self.dice.randint(1, 9)
        self._collective(lambda member, ranks: Call(OpKind.ALL_REDUCE, "float32", count, "sum"))

    def _gather(self) -> None:
        count = self.dice.randint(1, 9)
        self._collective(lambda member, ranks: Call(OpKind.ALL_GATHER, "float32", count, recv=(count,) * len(ranks)))

    def _exchange(self) -> None:
        """Each sends to the others by how they lie from it."""
        salt = self.dice.randint(0, 99)

        def count(sender: int, receiver: int) -> int:
            a, b = self.place(sender), self.place(receiver)
            return hash((salt, *((b[n] - a[n]) % extent for n, extent in self.mesh.items()))) % 5

        self._collective(
            lambda member, ranks: Call(
                OpKind.ALL_TO_ALL,
                "float32",
                sum(count(ranks[member], other) for other in ranks),
                send=tuple(count(ranks[member], other) for other in ranks),
                recv=tuple(count(other, ranks[member]) for other in ranks),
            )
        )

    def _message(self) -> None:
        """Each sends to the rank that lies so far from it, and awaits what comes from the other side."""
        way = {name: self.dice.randint(0, 1) * self.dice.randrange(extent) for name, extent in self.mesh.items()}
        along = self.dice.choice(list(self.groups))
        way = {name: by if name in along else 0 for name, by in way.items()}
        tag = self.dice.randint(0, 1)
        for name, ranks in self.groups[along]:
            for rank in ranks:
                here = self.place(rank)
                to = self.rank({n: here[n] + way[n] for n in here})
                source = self.rank({n: here[n] - way[n] for n in here})
                self._post(rank, name, Call(OpKind.SEND_RECV, "float32", 4, peer=ranks.index(to), tag=tag, sends=True))
                self._post(rank, name, Call(OpKind.SEND_RECV, "float32", 4, peer=ranks.index(source), tag=tag))

    def _wait(self) -> None:
        chosen = self.dice.random()
        for rank in range(self.size):
            handles = tuple(h for h in range(1, self.handles[rank] + 1) if h % 2 == 0 or chosen < 0.5)
            self.programs[rank] += [Wait(handles), Mark()]


def folding(mesh: dict[str, int], *over: str) -> Folding:
    """A folding of some dimensions of a mesh."""
    folded = Folding(mesh, over)
    assert folded.world_size == prod(mesh.values())
    return folded
