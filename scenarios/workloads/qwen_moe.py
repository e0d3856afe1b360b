"""A mixture-of-experts model in the shape of Qwen3-MoE: tensor, pipeline, expert and data parallelism at once.

A plain torchrun program that knows nothing of PRISM:

    torchrun --nproc-per-node 16 qwen_moe.py --mesh pp=2,dp=2,ep=2,tp=2

Rank = ((stage * DP + replica) * EP + expert rank) * TP + tensor rank. The model is only hinted at: tensors are small
and the arithmetic is a few matrix products (or, with --sleep, a time that is slept), but every operation that such a
job does is there, in the order of 1F1B. With `--data own` each rank routes its tokens as it likes, with `same` all do
alike.
"""

import argparse
import time
from math import prod

import torch
import torch.distributed as dist

DIM = 16


def make_groups(extents):
    """This rank's process groups by name, and its place on the mesh; every rank takes part in the making of all."""
    grid = torch.arange(prod(extents.values())).view(*extents.values())
    names = list(extents)
    spans = {name: [names.index(name)] for name in names} | {"data": [names.index("dp"), names.index("ep")]}
    groups = {}
    for name, dims in spans.items():
        size = prod(grid.shape[dim] for dim in dims)
        members = grid.movedim(dims, list(range(-len(dims), 0))).reshape(-1, size).tolist()
        groups[name] = dist.new_subgroups_by_enumeration(members)[0]
    place = (grid == dist.get_rank()).nonzero()[0].tolist()
    return groups, dict(zip(names, place, strict=True))


class Stage:
    """One pipeline stage of one tensor rank: its layers' communication and as much arithmetic as there are tokens."""

    def __init__(self, args, groups, place):
        self.args, self.groups, self.place = args, groups, place
        self.weight = torch.eye(DIM)
        self.routed = []  # of micro-batches whose backward pass is to come: (sent, received) by layer
        data_rank = place["dp"] * args.extents["ep"] + place["ep"] + 1
        self.dice = torch.Generator().manual_seed(data_rank if args.data == "own" else 0)

    def work(self, tokens):
        """Arithmetic on so many tokens; the last stage has a head to compute too."""
        if self.args.sleep:
            time.sleep(1e-6 * tokens * (2 + self.place["pp"] % 2))
            return
        rows = torch.ones(tokens, DIM)
        for _ in range(2 + self.place["pp"] % 2):
            rows = rows @ self.weight

    def reduce(self, hidden):
        dist.all_reduce(hidden, group=self.groups["tp"])
        hidden /= self.args.extents["tp"]

    def route(self):
        """How many tokens go to each expert rank."""
        experts = self.args.extents["ep"]
        counts = torch.full((experts,), self.args.tokens // experts)
        if self.args.data == "own":
            counts += torch.randint(0, self.args.tokens // experts, (experts,), generator=self.dice)
        return counts

    def exchange(self, rows, send, receive):
        arrived = rows.new_empty(sum(receive), DIM)
        dist.all_to_all_single(arrived, rows, receive, send, group=self.groups["ep"])
        return arrived

    def forward(self, hidden):
        routed = []
        for _ in range(self.args.layers):
            self.work(self.args.tokens)
            self.reduce(hidden)
            counts = self.route()
            arriving = torch.empty_like(counts)
            dist.all_to_all_single(arriving, counts, group=self.groups["ep"])
            send, receive = counts.tolist(), arriving.tolist()
            arrived = self.exchange(torch.ones(sum(send), DIM), send, receive)
            self.work(2 * len(arrived))
            self.exchange(arrived, receive, send)
            self.reduce(hidden)
            routed.append((send, receive))
        self.routed.append(routed)
        return hidden

    def backward(self, gradient):
        for send, receive in reversed(self.routed.pop(0)):
            self.reduce(gradient)
            arrived = self.exchange(torch.ones(sum(send), DIM), send, receive)
            self.work(4 * len(arrived))
            self.exchange(arrived, receive, send)
            self.work(2 * self.args.tokens)
            self.reduce(gradient)
        return gradient


def one_f_one_b(stage, peers, micro_batches):
    """Forward and backward passes of all micro-batches; messages that leave are waited for at the end."""
    mine, last, leaving = stage.place["pp"], len(peers) - 1, []

    def passed(step, source, target):
        hidden = torch.ones(stage.args.tokens, DIM)
        if 0 <= source <= last:
            dist.irecv(hidden, peers[source], group=stage.groups["pp"]).wait()
        hidden = step(hidden)
        if 0 <= target <= last:
            leaving.append(dist.isend(hidden, peers[target], group=stage.groups["pp"]))

    ahead = min(last - mine, micro_batches)
    for _ in range(ahead):
        passed(stage.forward, mine - 1, mine + 1)
    for _ in range(micro_batches - ahead):
        passed(stage.forward, mine - 1, mine + 1)
        passed(stage.backward, mine + 1, mine - 1)
    for _ in range(ahead):
        passed(stage.backward, mine + 1, mine - 1)
    for work in leaving:
        work.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mesh", default="pp=2,dp=2,ep=2,tp=2")
    parser.add_argument("--data", choices=("same", "own"), default="same")
    parser.add_argument("--sleep", action="store_true")
    for name, default in {"iterations": 3, "micro-batches": 8, "layers": 2, "tokens": 64}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    args.extents = {name: int(extent) for name, extent in (part.split("=") for part in args.mesh.split(","))}

    dist.init_process_group("gloo")
    groups, place = make_groups(args.extents)
    stage, peers = Stage(args, groups, place), dist.get_process_group_ranks(groups["pp"])
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.0)  # its step ends an iteration
    for _ in range(args.iterations):
        one_f_one_b(stage, peers, args.micro_batches)
        dense = dist.all_reduce(torch.ones(64 * DIM), group=groups["data"], async_op=True)
        experts = dist.all_reduce(torch.ones(128 * DIM), group=groups["dp"], async_op=True)
        dense.wait()
        experts.wait()
        stage.work(args.tokens)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
