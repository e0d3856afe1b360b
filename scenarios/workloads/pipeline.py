"""A small language model in pipeline stages that need not be equal, with data-parallel replicas, trained with 1F1B.

A plain torchrun program that knows nothing of PRISM:

    torchrun --nproc-per-node 8 pipeline.py --layers 2,2,2,2 --replicas 2

Rank = stage * replicas + replica. `--layers` gives the layers of each stage; the first one embeds the tokens too, the
last one has the head and the loss.
"""

import argparse
from collections import deque

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class Layer(nn.Module):
    """A residual feed-forward layer."""

    def __init__(self, width):
        super().__init__()
        self.inner = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        return x + self.inner(x)


class Stage:
    """One pipeline stage of one replica: its part of the model, and the forward passes whose backward is to come."""

    def __init__(self, args, index, peers):
        self.args, self.peers, self.index, self.last = args, peers, index, len(peers) - 1
        layers = [Layer(args.width) for _ in range(args.layers[index])]
        first = [nn.Embedding(args.vocabulary, args.width)] if index == 0 else []
        head = [nn.Linear(args.width, args.vocabulary)] if index == self.last else []
        self.model = nn.Sequential(*first, *layers, *head)
        self.open, self.leaving = deque(), deque()

    def forward(self, tokens):
        """One micro-batch forward; its result goes to the next stage, the last one makes a loss of it."""
        given = tokens[:, :-1] if self.index == 0 else self.receive(self.index - 1).requires_grad_()
        out = self.model(given)
        if self.index == self.last:
            out = F.cross_entropy(out.flatten(0, 1), tokens[:, 1:].flatten()) / self.args.micro_batches
        else:
            self.send(out.detach(), self.index + 1)
        self.open.append((given, out))

    def backward(self):
        """The oldest open micro-batch backward; the gradient goes to the stage before. Returns the loss, or None."""
        given, out = self.open.popleft()
        out.backward(None if self.index == self.last else self.receive(self.index + 1))
        if self.index:
            self.send(given.grad, self.index - 1)
        return out.detach() if self.index == self.last else None

    def receive(self, stage):
        hidden = torch.empty(self.args.rows, self.args.sequence, self.args.width)
        dist.recv(hidden, self.peers[stage])
        return hidden

    def send(self, hidden, stage):
        self.leaving.append(dist.isend(hidden, self.peers[stage]))

    def one_f_one_b(self, batches):
        """As many forward passes ahead as there are stages behind, then a forward and a backward in turns."""
        ahead = min(self.last - self.index, len(batches))
        losses = []
        for number, batch in enumerate(batches):
            self.forward(batch)
            if number >= ahead:
                losses.append(self.backward())
        while self.open:
            losses.append(self.backward())
        while self.leaving:
            self.leaving.popleft().wait()
        return sum(losses) if self.index == self.last else None


def make_batches(args, iteration, replica):
    """Micro-batches of tokens that count upwards; all stages of a replica make the same ones."""
    seeded = torch.Generator().manual_seed(1000 * iteration + replica)
    start = torch.randint(args.vocabulary, (args.micro_batches, args.rows, 1), generator=seeded)
    return (start + torch.arange(args.sequence + 1)) % args.vocabulary


def average_gradients(parameters, group):
    """One all_reduce over the replicas of the stage."""
    flat = torch.cat([p.grad.flatten() for p in parameters])
    dist.all_reduce(flat, group=group)
    for p, total in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
        p.grad = total.view_as(p) / dist.get_world_size(group)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", default="2,2,2,2", help="layers of each stage")
    defaults = {"replicas": 2, "micro-batches": 8, "rows": 2, "sequence": 32, "width": 128, "vocabulary": 512}
    for name, default in {**defaults, "iterations": 4}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    args.layers = [int(count) for count in args.layers.split(",")]
    return args


def main():
    args = arguments()
    dist.init_process_group("gloo")
    index, replica = divmod(dist.get_rank(), args.replicas)
    stages = torch.arange(dist.get_world_size()).view(len(args.layers), args.replicas)
    group, _ = dist.new_subgroups_by_enumeration(stages.tolist())
    torch.manual_seed(index)
    stage = Stage(args, index, stages[:, replica].tolist())
    parameters = list(stage.model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    for iteration in range(args.iterations):
        optimizer.zero_grad()
        loss = stage.one_f_one_b(make_batches(args, iteration, replica))
        average_gradients(parameters, group)
        optimizer.step()
        if loss is not None and replica == 0:
            print(f"iteration {iteration}: loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
