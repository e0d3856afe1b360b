"""A piece of compute such as training consists of, some 0.2 ms long: forward and backward of a small network."""

import torch
from torch import nn

torch.manual_seed(0)
network = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))
batch = torch.randn(32, 64)


def compute():
    network.zero_grad()
    network(batch).square().mean().backward()
