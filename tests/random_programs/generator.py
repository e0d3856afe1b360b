"""Random programs as plain data: a seed gives one program, the same one every time.

A program is a list of steps that all members take in the same order, so it ends on any backend. A step is one
collective, or messages between members; `delay` says how many steps later it is waited for (None: it blocks).
"""

from __future__ import annotations

from random import Random

from random_programs.turns import Data, members

WORLDS = (2, 3, 4)

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int32", "int64", "uint8")
REDUCES = ("sum", "product", "min", "max")
FLOAT_REDUCES = (*REDUCES, "avg")
INTEGER_REDUCES = (*REDUCES, "band", "bor", "bxor")

REDUCING = ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor")
ROOTED = ("reduce", "broadcast", "gather", "scatter")
SIZED = (*REDUCING, *ROOTED[1:], "all_gather", "all_gather_into_tensor")
COLLECTIVES = (*SIZED, "all_to_all_single", "barrier")
ROOTED_OBJECTS = ("broadcast_object_list", "gather_object", "scatter_object_list")
OBJECTS = ("all_gather_object", *ROOTED_OBJECTS)

TAGS = 6


def program(seed: int) -> Data:
    """A program that is right."""
    source = Random(seed)
    world = source.choice(WORLDS)
    groups = [sorted(source.sample(range(world), source.randint(2, world))) for _ in range(source.randint(0, 2))]
    made = {"seed": seed, "world": world, "groups": groups, "steps": [], "mutation": {}}
    made["steps"] = [_step(source, made) for _ in range(source.randint(3, 12))]
    return made


def takers(made: Data, step: Data) -> set[int]:
    """The global ranks that post something in a step."""
    if step["call"] == "messages":
        return {rank for message in step["messages"] for rank in (message["from"], message["to"])}
    return set(members(made, step))


def _step(source: Random, made: Data) -> Data:
    step = {"group": source.randint(0, len(made["groups"])), "delay": source.choice((None, None, 0, 1, 2, 4))}
    kind = source.choices(("collective", "messages", "objects"), (12, 7, 1))[0]
    ranks = members(made, step)
    if kind == "messages":
        return step | _messages(source, ranks, made["world"], step["delay"])
    if kind == "objects":
        return step | {"delay": None} | _collective(source, ranks, source.choice(OBJECTS))
    return step | _collective(source, ranks, source.choice(COLLECTIVES))


def _collective(source: Random, ranks: list[int], call: str) -> Data:
    """A collective with what it needs, and nothing else."""
    step: Data = {"call": call}
    if call in SIZED:
        step |= _elements(source)
    if call in REDUCING:
        step["reduce"] = source.choice(FLOAT_REDUCES if step["dtype"] in FLOATS else INTEGER_REDUCES)
    if call in ROOTED + ROOTED_OBJECTS:
        step["root"] = source.choice(ranks)
    if call == "all_to_all_single":
        step["dtype"] = source.choice(FLOATS + INTEGERS)
        step["splits"] = [[source.randint(0, 3) for _ in ranks] for _ in ranks]
    return step


def _elements(source: Random) -> Data:
    return {"dtype": source.choice(FLOATS + INTEGERS), "count": source.choice((1, 2, 3, 5, 8, 17, 100))}


def _messages(source: Random, ranks: list[int], world: int, delay: int | None) -> Data:
    """One message; or several, each with its own tag, which every rank posts in an order of its own."""
    count = 1 if delay is None else source.randint(1, 5)
    messages = []
    for tag in source.sample(range(TAGS), count):
        sender, receiver = source.sample(ranks, 2)
        messages.append({"from": sender, "to": receiver, "tag": tag, **_elements(source)})
    orders = [source.sample(range(count), count) for _ in range(world)]
    batch = delay is not None and source.random() < 0.5
    return {"call": "messages", "messages": messages, "orders": orders, "batch": batch}
