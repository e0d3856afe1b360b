"""A program as each rank takes it, its mutation included."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

Data = dict[str, Any]


def turns(made: Data, rank: int) -> Iterator[tuple[int, Data]]:
    """The steps that a rank takes, each with its number in the program, in the rank's order and as the rank sees it."""
    mutation, numbers = made["mutation"], list(range(len(made["steps"])))
    if mutation.get("rank") != rank:
        mutation = {}
    if "skip" in mutation:
        numbers.remove(mutation["skip"])
    if "swap" in mutation:
        a, b = mutation["swap"]
        numbers[a], numbers[b] = b, a
    for number in numbers:
        step = made["steps"][number]
        yield number, step | mutation["change"] if mutation.get("step") == number else step


def members(made: Data, step: Data) -> list[int]:
    """The global ranks of a step's group: 0 is the default group, i the program's (i - 1)-th."""
    return made["groups"][step["group"] - 1] if step["group"] else list(range(made["world"]))


def contradictory(made: Data) -> bool:
    """Whether posts that meet, going by the order in which they are made, say different things."""
    lines: dict[tuple[object, ...], dict[object, list[Data]]] = defaultdict(lambda: defaultdict(list))
    for rank in range(made["world"]):
        for line, side, post in _posts(made, rank):
            lines[line][side].append(post)
    meetings = [meeting for sides in lines.values() for meeting in zip(*sides.values(), strict=False)]
    return any(post != first for first, *others in meetings for post in others)


def _posts(made: Data, rank: int) -> Iterator[tuple[tuple[object, ...], object, Data]]:
    """What a rank posts, each with the line of operations it belongs to and the side of it that the rank is."""
    for _, step in turns(made, rank):
        if step["call"] != "messages":
            if rank in members(made, step):
                yield (step["group"],), rank, {key: value for key, value in step.items() if key != "delay"}
            continue
        for message in (step["messages"][index] for index in step["orders"][rank]):
            for side in ("from", "to"):
                if message[side] == rank:
                    yield (step["group"], message["from"], message["to"], message["tag"]), side, message
