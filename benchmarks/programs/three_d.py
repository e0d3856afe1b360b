"""Trains a pipeline of tensor parallel blocks with data parallel replicas: three_d.py PP,TP,DP STEPS MICRO_BATCHES.

Rank = (stage x TP + shard) x DP + replica. Blocks are split as Megatron splits them: a column, then a row parallel
matrix, one all_reduce forward and one backward. Stages pass micro-batches on in the order of 1F1B; at the end of a step
the gradients of a stage's shard are summed up over its replicas in one bucket, as DDP does.
"""

import re
import sys
from pathlib import Path

import schedules
import torch
import torch.distributed as dist
from torch import nn

WIDTH, BLOCKS, BATCH = 64, 2, 8


class Enter(torch.autograd.Function):
    """Into the shards: all get the same, and their gradients are summed up."""

    @staticmethod
    def forward(context, hidden, group):
        context.group = group
        return hidden.view_as(hidden)

    @staticmethod
    def backward(context, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient, group=context.group)
        return gradient, None


class Leave(torch.autograd.Function):
    """Out of the shards: what they have is summed up, and all get the same gradient."""

    @staticmethod
    def forward(context, hidden, group):
        hidden = hidden.clone()
        dist.all_reduce(hidden, group=group)
        return hidden

    @staticmethod
    def backward(context, gradient):
        return gradient, None


class Block(nn.Module):
    """A residual feed-forward block, of which each shard has its part of the inner features."""

    def __init__(self, group, shards):
        super().__init__()
        self.group = group
        self.norm = nn.LayerNorm(WIDTH)
        self.column = nn.Linear(WIDTH, 4 * WIDTH // shards)
        self.row = nn.Linear(4 * WIDTH // shards, WIDTH, bias=False)

    def forward(self, hidden):
        inner = nn.functional.gelu(self.column(Enter.apply(self.norm(hidden), self.group)))
        return hidden + Leave.apply(self.row(inner), self.group)


def step(model, stage, stages, peers, tokens, micro_batches):
    """All micro-batches, forward and backward; messages that leave are waited for at the end."""
    inputs, outputs, leaving = {}, {}, []
    for kind, _, batch in schedules.one_f_one_b(stages, stage, micro_batches):
        if kind == "F":
            hidden = tokens[batch].clone()
            if stage > 0:
                dist.recv(hidden, peers[stage - 1])
            inputs[batch] = hidden.requires_grad_(stage > 0)
            outputs[batch] = model(inputs[batch])
            if stage < stages - 1:
                leaving.append(dist.isend(outputs[batch].detach(), peers[stage + 1]))
            continue
        gradient = torch.empty(BATCH, WIDTH)
        if stage < stages - 1:
            dist.recv(gradient, peers[stage + 1])
            outputs.pop(batch).backward(gradient)
        else:
            outputs.pop(batch).square().mean().backward()
        hidden = inputs.pop(batch)
        if stage > 0:
            leaving.append(dist.isend(hidden.grad, peers[stage - 1]))
    for message in leaving:
        message.wait()


def average(parameters, group, replicas):
    """The gradients of all replicas, in one bucket."""
    bucket = torch.cat([parameter.grad.reshape(-1) for parameter in parameters])
    dist.all_reduce(bucket, group=group)
    sizes = [parameter.numel() for parameter in parameters]
    for parameter, gradient in zip(parameters, bucket.div_(replicas).split(sizes), strict=True):
        parameter.grad.copy_(gradient.view_as(parameter))


def main():
    stages, shards, replicas = (int(extent) for extent in sys.argv[1].split(","))
    steps, micro_batches = int(sys.argv[2]), int(sys.argv[3])
    dist.init_process_group("gloo")
    mesh = dist.init_device_mesh("cpu", (stages, shards, replicas), mesh_dim_names=("pp", "tp", "dp"))
    stage, shard, replica = mesh.get_coordinate()
    tp, dp = mesh.get_group("tp"), mesh.get_group("dp")
    peers = dist.get_process_group_ranks(mesh.get_group("pp"))
    torch.manual_seed(stage * shards + shard)
    model = nn.Sequential(*(Block(tp, shards) for _ in range(BLOCKS)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(replica)
    tokens = torch.randn(micro_batches, BATCH, WIDTH)
    for _ in range(steps):
        optimizer.zero_grad()
        step(model, stage, stages, peers, tokens, micro_batches)
        average(list(model.parameters()), dp, replicas)
        optimizer.step()
    if dist.get_rank() % 16 == 0:  # each that asks takes a ms
        private = re.findall(r"Private_\w+: +(\d+) kB", Path("/proc/self/smaps_rollup").read_text())
        print(f"PRIVATE {sum(map(int, private))}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()
