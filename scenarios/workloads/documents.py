"""A language model on documents of several lengths, with DDP; each rank of a node reads a shard of its own.

A plain torchrun program that knows nothing of PRISM:  torchrun --nproc-per-node 8 documents.py
"""

import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

VOCABULARY, WIDTH, BATCH, ITERATIONS = 256, 128, 8, 5


def lengths(shard):
    """How long the documents of a batch are: all about the same, but for one in the fifth shard."""
    found = [48 + (shard * 5 + place) % 16 for place in range(BATCH)]
    return [*found[:-1], 384] if shard == 5 else found


def read(shard):
    """A batch, padded to its longest document."""
    documents = [torch.randint(VOCABULARY, (length,)) for length in lengths(shard)]
    return nn.utils.rnn.pad_sequence(documents, batch_first=True)


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
    model = nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), layer, nn.Linear(WIDTH, VOCABULARY)).to(device)
    model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(ITERATIONS):
        tokens = read(int(os.environ["LOCAL_RANK"])).to(device)
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
