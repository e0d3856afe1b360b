"""Random programs as plain data: a seed gives one program, the same one every time.

A program is a list of steps that all members take in the same order, so it ends on any backend; each step is one
collective, or messages between members. Its `mutation` makes it wrong on one rank: that rank skips a step, swaps two,
or sees a step with another size, type, root, reduction or tag.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

Data = dict[str, Any]

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int32", "int64", "uint8")
REDUCES = ("sum", "product", "min", "max")
FLOAT_REDUCES = (*REDUCES, "avg")
INTEGER_REDUCES = (*REDUCES, "band", "bor", "bxor")

REDUCING = ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor")
ROOTED = ("reduce", "broadcast", "gather", "scatter")
COLLECTIVES = (*REDUCING, *ROOTED[1:], "all_gather", "all_gather_into_tensor", "all_to_all_single", "barrier")
OBJECTS = ("all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list")
UNSIZED = ("barrier", *OBJECTS)

ORDERS = ("skip", "swap", "tag")
"""Mutations that change what meets what: whether the program still ends is for gloo to say."""

CONTENTS = ("count", "dtype", "root", "reduce")
"""Mutations after which two sides of one operation contradict each other."""


def program(seed: int) -> Data:
    """A program; every second one has a mutation."""
    source = Random(seed)
    world = source.randint(2, 4)
    groups = [sorted(source.sample(range(world), source.randint(2, world))) for _ in range(source.randint(0, 2))]
    members = [list(range(world)), *groups]
    steps = [_step(source, members) for _ in range(source.randint(3, 12))]
    made = {"seed": seed, "world": world, "groups": groups, "steps": steps, "mutation": {}}
    if seed % 2:
        made["mutation"] = _mutation(source, made, members)
    return made


def _step(source: Random, members: list[list[int]]) -> Data:
    group = source.randrange(len(members))
    kind = source.choices(("collective", "messages", "objects"), (12, 7, 1))[0]
    step: Data = {"group": group, "delay": source.choice((None, None, 0, 1, 2, 4))}
    if kind == "messages":
        return step | _messages(source, members[group], len(members[0]), step["delay"])
    if kind == "objects":
        return step | {"call": source.choice(OBJECTS), "root": source.choice(members[group]), "delay": None}
    step |= {"call": source.choice(COLLECTIVES), **_elements(source), "root": source.choice(members[group])}
    step["reduce"] = source.choice(FLOAT_REDUCES if step["dtype"] in FLOATS else INTEGER_REDUCES)
    if step["call"] == "all_to_all_single":
        step["splits"] = [[source.randint(0, 3) for _ in members[group]] for _ in members[group]]
    return step


def _elements(source: Random) -> Data:
    return {"dtype": source.choice(FLOATS + INTEGERS), "count": source.choice((1, 2, 3, 5, 8, 17, 100))}


def _messages(source: Random, members: list[int], world: int, delay: int | None) -> Data:
    """One message; or several that may overtake each other, since each of a pair has its own tag."""
    count = 1 if delay is None else source.randint(1, 5)
    tags = source.sample(range(6), count)
    messages = []
    for tag in tags:
        sender, receiver = source.sample(members, 2)
        messages.append({"from": sender, "to": receiver, "tag": tag, **_elements(source)})
    orders = [source.sample(range(count), count) for _ in range(world)]
    return {"call": "messages", "messages": messages, "orders": orders, "batch": delay is not None and source.random() < 0.5}


def _mutation(source: Random, made: Data, members: list[list[int]]) -> Data:
    """One that applies to the program, tried at random; skipping a step always does."""
    while True:
        rank = source.randrange(made["world"])
        taken = [n for n, step in enumerate(made["steps"]) if rank in _takers(step, members)]
        kind = source.choice(ORDERS + CONTENTS)
        if taken and (change := _MUTATIONS[kind](source, made["steps"], rank, taken, members)):
            return {"kind": kind, "rank": rank, **change}


def _takers(step: Data, members: list[list[int]]) -> set[int]:
    """The ranks that post something in a step."""
    if step["call"] == "messages":
        return {rank for message in step["messages"] for rank in (message["from"], message["to"])}
    return set(members[step["group"]])


def _skip(source: Random, steps: list[Data], rank: int, taken: list[int], members: list[list[int]]) -> Data | None:
    return {"skip": source.choice(taken)}


def _swap(source: Random, steps: list[Data], rank: int, taken: list[int], members: list[list[int]]) -> Data | None:
    return {"swap": sorted(source.sample(taken, 2))} if len(taken) > 1 else None


def _tag(source: Random, steps: list[Data], rank: int, taken: list[int], members: list[list[int]]) -> Data | None:
    return _in_message(source, steps, rank, taken, lambda message: {"tag": (message["tag"] + 1) % 6})


def _count(source: Random, steps: list[Data], rank: int, taken: list[int], members: list[list[int]]) -> Data | None:
    number = source.choice(taken)
    step, more = steps[number], source.choice((1, 3))
    if step["call"] == "messages":
        return _in_message(source, steps, rank, [number], lambda message: {"count": message["count"] + more})
    if step["call"] == "all_to_all_single":
        splits = [list(row) for row in step["splits"]]
        me = members[step["group"]].index(rank)
        splits[me][me - 1] += more  # what it sends to the member before it
        return {"step": number, "change": {"splits": splits}}
    return None if step["call"] in UNSIZED else {"step": number, "change": {"count": step["count"] + more}}


def _dtype(source: Random, steps: list[Data], rank: int, taken: list[int], members: list[list[int]]) -> Data | None:
    number = source.choice(taken)
    step = steps[number]

    def other(of: Data) -> Data:
        alike = FLOATS if of["dtype"] in FLOATS else INTEGERS  # the reduction must stay one that gloo has for it
        return {"dtype": source.choice([dtype for dtype in alike if dtype != of["dtype"]])}

    if step["call"] == "messages":
        return _in_message(source, steps, rank, [number], other)
    if step["call"] == "all_to_all_single" and not any(map(sum, step["splits"])):
        return None
    return None if step["call"] in UNSIZED else {"step": number, "change": other(step)}


def _root(source: Random, steps: list[Data], rank: int, taken: list[int], members: list[list[int]]) -> Data | None:
    number = source.choice(taken)
    step = steps[number]
    if step["call"] not in ROOTED:
        return None
    others = [member for member in members[step["group"]] if member != step["root"]]
    return {"step": number, "change": {"root": source.choice(others)}}


def _reduce(source: Random, steps: list[Data], rank: int, taken: list[int], members: list[list[int]]) -> Data | None:
    number = source.choice(taken)
    step = steps[number]
    if step["call"] not in REDUCING:
        return None
    return {"step": number, "change": {"reduce": source.choice([r for r in REDUCES if r != step["reduce"]])}}


def _in_message(
    source: Random, steps: list[Data], rank: int, taken: list[int], change: Callable[[Data], Data]
) -> Data | None:
    """A change of one message on the rank's side of it."""
    number = source.choice(taken)
    messages = steps[number].get("messages", [])
    mine = [index for index, message in enumerate(messages) if rank in (message["from"], message["to"])]
    if not mine:
        return None
    at = source.choice(mine)
    changed = [*messages[:at], messages[at] | change(messages[at]), *messages[at + 1 :]]
    return {"step": number, "change": {"messages": changed}}


_MUTATIONS = {"skip": _skip, "swap": _swap, "tag": _tag, "count": _count, "dtype": _dtype, "root": _root, "reduce": _reduce}
