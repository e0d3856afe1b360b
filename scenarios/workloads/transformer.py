"""A small causal transformer, data-parallel with DDP, whose memory and work grow with --batch.

A plain torchrun program that knows nothing of PRISM:  torchrun --nproc-per-node 4 transformer.py --batch 8
"""

import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

VOCAB, HEADS = 256, 4


class Block(nn.Module):
    """Causal attention and a feed-forward layer."""

    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.feed(self.norm2(x))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in {"batch": 4, "layers": 4, "width": 128, "sequence": 64, "iterations": 4}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    layers = [Block(args.width) for _ in range(args.layers)]
    model = nn.Sequential(nn.Embedding(VOCAB, args.width), *layers, nn.Linear(args.width, VOCAB))
    model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(dist.get_rank())
    for iteration in range(args.iterations):
        tokens = (torch.randint(VOCAB, (args.batch, 1)) + torch.arange(args.sequence + 1)) % VOCAB
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0:
            print(f"iteration {iteration}: loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
