"""Trains a small transformer on one process, without torch.distributed: transformer.py ITERATIONS."""

import sys

import torch
from torch import nn

WIDTH, HEADS, LAYERS, BATCH, LENGTH = 256, 4, 2, 4, 64

torch.manual_seed(0)
layers = [
    nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0, batch_first=True, norm_first=True)
    for _ in range(LAYERS)
]
model = nn.Sequential(*layers)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
tokens = torch.randn(BATCH, LENGTH, WIDTH)
for _ in range(int(sys.argv[1])):
    optimizer.zero_grad()
    model(tokens).square().mean().backward()
    optimizer.step()
