"""Runs programs of the generator on torch.distributed; every rank prints what each step left in its tensors.

Argument: a JSON file with a list of programs, which run one after another on the same default group. A line reads
`program.step values`. Integers are printed as they are and floats in hexadecimal, so that equal lines mean equal bits.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from turns import members, turns  # beside this file: the script's folder is on the path of whoever runs it

INTEGERS = {"uint8": (0, 255), "int32": (-9, 9), "int64": (-9, 9)}
Posted = tuple[list[dist.Work], Any]  # what to wait for, and what to print then (None for nothing)


def data(key: str, count: int, dtype: str) -> torch.Tensor:
    """Values that depend on the key alone; floats have magnitudes from 1 to 2, so that none can be missed in a sum."""
    source = random.Random(key)
    if dtype in INTEGERS:
        values = [source.randint(*INTEGERS[dtype]) for _ in range(count)]
    else:
        values = [source.choice((-1, 1)) * source.uniform(1, 2) for _ in range(count)]
    return torch.tensor(values, dtype=getattr(torch, dtype))


def blank(count: int, dtype: str) -> torch.Tensor:
    """Room for what comes in; its value shows where nothing came."""
    return torch.full((count,), 77, dtype=getattr(torch, dtype))


def plain(value: Any) -> Any:
    """A value as JSON, without loss."""
    if isinstance(value, torch.Tensor):
        return plain(value.tolist())
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.hex() if isinstance(value, float) else value


class Runner:
    """One rank in one program."""

    def __init__(self, program: dict[str, Any], number: int) -> None:
        self.program, self.number, self.rank = program, number, dist.get_rank()
        self.groups = [dist.group.WORLD, *(dist.new_group(ranks) for ranks in program["groups"])]
        self.pending: list[tuple[int, int, Posted]] = []  # (after which turn it is waited for, its step, itself)

    def run(self) -> None:
        """Take all steps, and wait for each as many turns later as it says."""
        for turn, (number, step) in enumerate(turns(self.program, self.rank)):
            if self.rank in members(self.program, step):
                self.pending.append((turn + (step["delay"] or 0), number, getattr(self, step["call"])(number, step)))
            self.wait_until(turn)
        self.wait_until(sys.maxsize)

    def wait_until(self, turn: int) -> None:
        """Wait for what is due by this turn, the earliest first, and print it."""
        for entry in sorted((e for e in self.pending if e[0] <= turn), key=lambda e: e[:2]):
            self.pending.remove(entry)
            _, number, (works, output) = entry
            for work in works:
                work.wait()
            if output is not None:
                print(f"{self.number}.{number} {json.dumps(plain(output))}", flush=True)

    def mine(self, number: int, step: dict[str, Any], blocks: int = 1) -> torch.Tensor:
        """This rank's input."""
        return data(f"{self.program['seed']}/{number}/{self.rank}", step["count"] * blocks, step["dtype"])

    def size(self, step: dict[str, Any]) -> int:
        return len(members(self.program, step))

    def rooms(self, step: dict[str, Any]) -> list[torch.Tensor]:
        """A blank for each member."""
        return [blank(step["count"], step["dtype"]) for _ in range(self.size(step))]

    def collective(self, function: Any, step: dict[str, Any], *args: Any, output: Any) -> Posted:
        work = function(*args, group=self.groups[step["group"]], async_op=step["delay"] is not None)
        return [work] if work is not None else [], output

    # One method a call; each posts it.

    def all_reduce(self, number: int, step: dict[str, Any]) -> Posted:
        tensor = self.mine(number, step)
        return self.collective(dist.all_reduce, step, tensor, reduction(step), output=tensor)

    def reduce(self, number: int, step: dict[str, Any]) -> Posted:
        tensor = self.mine(number, step)
        shown = tensor if self.rank == step["root"] else None  # what the others' tensors hold is left open
        return self.collective(dist.reduce, step, tensor, step["root"], reduction(step), output=shown)

    def reduce_scatter(self, number: int, step: dict[str, Any]) -> Posted:
        parts = list(self.mine(number, step, self.size(step)).split(step["count"]))
        tensor = blank(step["count"], step["dtype"])
        return self.collective(dist.reduce_scatter, step, tensor, parts, reduction(step), output=tensor)

    def reduce_scatter_tensor(self, number: int, step: dict[str, Any]) -> Posted:
        whole, tensor = self.mine(number, step, self.size(step)), blank(step["count"], step["dtype"])
        return self.collective(dist.reduce_scatter_tensor, step, tensor, whole, reduction(step), output=tensor)

    def broadcast(self, number: int, step: dict[str, Any]) -> Posted:
        tensor = self.mine(number, step)
        return self.collective(dist.broadcast, step, tensor, step["root"], output=tensor)

    def all_gather(self, number: int, step: dict[str, Any]) -> Posted:
        parts = self.rooms(step)
        return self.collective(dist.all_gather, step, parts, self.mine(number, step), output=parts)

    def all_gather_into_tensor(self, number: int, step: dict[str, Any]) -> Posted:
        whole = torch.cat(self.rooms(step))
        return self.collective(dist.all_gather_into_tensor, step, whole, self.mine(number, step), output=whole)

    def gather(self, number: int, step: dict[str, Any]) -> Posted:
        parts = self.rooms(step) if self.rank == step["root"] else None
        return self.collective(dist.gather, step, self.mine(number, step), parts, step["root"], output=parts)

    def scatter(self, number: int, step: dict[str, Any]) -> Posted:
        whole, tensor = self.mine(number, step, self.size(step)), blank(step["count"], step["dtype"])
        parts = list(whole.split(step["count"])) if self.rank == step["root"] else None
        return self.collective(dist.scatter, step, tensor, parts, step["root"], output=tensor)

    def all_to_all_single(self, number: int, step: dict[str, Any]) -> Posted:
        me = members(self.program, step).index(self.rank)
        send, receive = step["splits"][me], [row[me] for row in step["splits"]]
        given = self.mine(number, step | {"count": sum(send)})
        tensor = blank(sum(receive), step["dtype"])
        return self.collective(dist.all_to_all_single, step, tensor, given, receive, send, output=tensor)

    def barrier(self, number: int, step: dict[str, Any]) -> Posted:
        return self.collective(dist.barrier, step, output=None)

    def messages(self, number: int, step: dict[str, Any]) -> Posted:
        """Each rank posts its messages in an order of its own, at once or as one batch; a blocking one is alone."""
        calls, received = [], {}
        for index in step["orders"][self.rank]:
            message = step["messages"][index]
            key, count, dtype = f"{self.program['seed']}/{number}/{index}", message["count"], message["dtype"]
            if message["from"] == self.rank:
                calls.append(("send", data(key, count, dtype), message["to"], message["tag"]))
            if message["to"] == self.rank:
                received[index] = blank(count, dtype)
                calls.append(("recv", received[index], message["from"], message["tag"]))
        works = post_messages(calls, self.groups[step["group"]], step)
        return works, [received[index] for index in sorted(received)] or None

    def object(self, number: int) -> Any:
        return [f"step {number}", "x" * (7 * self.rank), {"rank": self.rank}]

    def all_gather_object(self, number: int, step: dict[str, Any]) -> Posted:
        found: list[Any] = [None] * self.size(step)
        dist.all_gather_object(found, self.object(number), group=self.groups[step["group"]])
        return [], found

    def broadcast_object_list(self, number: int, step: dict[str, Any]) -> Posted:
        found = self.object(number)
        dist.broadcast_object_list(found, step["root"], group=self.groups[step["group"]])
        return [], found

    def gather_object(self, number: int, step: dict[str, Any]) -> Posted:
        found = [None] * self.size(step) if self.rank == step["root"] else None
        dist.gather_object(self.object(number), found, step["root"], group=self.groups[step["group"]])
        return [], found

    def scatter_object_list(self, number: int, step: dict[str, Any]) -> Posted:
        given = [self.object(number + i) for i in range(self.size(step))] if self.rank == step["root"] else None
        found: list[Any] = [None]
        dist.scatter_object_list(found, given, step["root"], group=self.groups[step["group"]])
        return [], found


def reduction(step: dict[str, Any]) -> dist.ReduceOp:
    return getattr(dist.ReduceOp, step["reduce"].upper())


def post_messages(calls: list[tuple[str, torch.Tensor, int, int]], group: Any, step: dict[str, Any]) -> list[dist.Work]:
    if step["batch"]:
        ops = [dist.P2POp(getattr(dist, f"i{name}"), tensor, peer, group, tag) for name, tensor, peer, tag in calls]
        return dist.batch_isend_irecv(ops) if ops else []
    if step["delay"] is not None:
        return [getattr(dist, f"i{name}")(tensor, peer, group, tag) for name, tensor, peer, tag in calls]
    for name, tensor, peer, tag in calls:
        getattr(dist, name)(tensor, peer, group, tag)
    return []


if __name__ == "__main__":
    dist.init_process_group("gloo")
    for number, program in enumerate(json.loads(Path(sys.argv[1]).read_text())):
        Runner(program, number).run()
    dist.destroy_process_group()
