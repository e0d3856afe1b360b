"""Mutations: how a random program goes wrong on one rank.

`skip` leaves a step out and `swap` exchanges two; every other one changes a field of a step, as that rank sees it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from random_programs.generator import FLOATS, INTEGERS, REDUCES, REDUCING, ROOTED, TAGS, takers
from random_programs.turns import Data, members

ORDERS = ("skip", "swap", "tag")
"""Those that change what meets what: whether the program still ends is for gloo to say."""

CONTENTS = ("count", "dtype", "root", "reduce")
"""Those after which two sides of one operation contradict each other."""


def mutated(made: Data) -> Data:
    """The program with a mutation, which its seed decides."""
    source = Random(f"mutation {made['seed']}")
    while True:
        rank = source.randrange(made["world"])
        taken = [number for number, step in enumerate(made["steps"]) if rank in takers(made, step)]
        kind = source.choice(ORDERS + CONTENTS)
        if taken and (change := getattr(_Victim(source, made, rank, taken), kind)()):
            return made | {"mutation": {"kind": kind, "rank": rank, **change}}


def without(made: Data, number: int) -> Data | None:
    """The program without one of its steps; None if the mutation is about that step."""
    mutation = dict(made["mutation"])
    about = [mutation[key] for key in ("step", "skip") if key in mutation] + mutation.get("swap", [])
    if number in about or len(made["steps"]) == 1:
        return None
    for key in ("step", "skip"):
        if key in mutation:
            mutation[key] -= mutation[key] > number
    if "swap" in mutation:
        mutation["swap"] = [step - (step > number) for step in mutation["swap"]]
    return made | {"steps": [step for at, step in enumerate(made["steps"]) if at != number], "mutation": mutation}


@dataclass(frozen=True)
class _Victim:
    """The rank that goes wrong, and the steps it takes; a method a mutation, None where it does not fit the step."""

    source: Random
    made: Data
    rank: int
    taken: list[int]

    def skip(self) -> Data | None:
        return {"skip": self.source.choice(self.taken)}

    def swap(self) -> Data | None:
        return {"swap": sorted(self.source.sample(self.taken, 2))} if len(self.taken) > 1 else None

    def tag(self) -> Data | None:
        number, step = self._pick()
        if step["call"] != "messages":
            return None
        return self._message(number, lambda message: {"tag": (message["tag"] + 1) % TAGS})

    def count(self) -> Data | None:
        number, step = self._pick()
        more = self.source.choice((1, 3))
        if step["call"] == "messages":
            return self._message(number, lambda message: {"count": message["count"] + more})
        if step["call"] == "all_to_all_single":
            splits = [list(row) for row in step["splits"]]
            me = members(self.made, step).index(self.rank)
            splits[me][me - 1] += more  # what it sends to the member before it
            return _changed(number, splits=splits)
        return _changed(number, count=step["count"] + more) if "count" in step else None

    def dtype(self) -> Data | None:
        number, step = self._pick()
        if step["call"] == "messages":
            return self._message(number, lambda message: {"dtype": self._other(message["dtype"])})
        return _changed(number, dtype=self._other(step["dtype"])) if "dtype" in step else None

    def root(self) -> Data | None:
        number, step = self._pick()
        others = [rank for rank in members(self.made, step) if rank != step.get("root")]
        return _changed(number, root=self.source.choice(others)) if step["call"] in ROOTED else None

    def reduce(self) -> Data | None:
        number, step = self._pick()
        others = [reduce for reduce in REDUCES if reduce != step.get("reduce")]
        return _changed(number, reduce=self.source.choice(others)) if step["call"] in REDUCING else None

    def _pick(self) -> tuple[int, Data]:
        number = self.source.choice(self.taken)
        return number, self.made["steps"][number]

    def _other(self, dtype: str) -> str:
        """Another type for which gloo has the same reductions."""
        return self.source.choice([other for other in (FLOATS if dtype in FLOATS else INTEGERS) if other != dtype])

    def _message(self, number: int, change: Callable[[Data], Data]) -> Data:
        """Change the rank's side of one of its messages."""
        messages = list(self.made["steps"][number]["messages"])
        mine = [at for at, message in enumerate(messages) if self.rank in (message["from"], message["to"])]
        at = self.source.choice(mine)
        messages[at] = messages[at] | change(messages[at])
        return _changed(number, messages=messages)


def _changed(number: int, **change: object) -> Data:
    return {"step": number, "change": change}
