"""A program that starts its own ranks, as the tutorials of torch do, after a child that has another use."""

import os

import torch.distributed as dist
import torch.multiprocessing as mp


def load(numbers):
    numbers.put(7)


def train(rank):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29872")
    dist.init_process_group("gloo", rank=rank, world_size=2)


if __name__ == "__main__":
    numbers = mp.get_context("spawn").SimpleQueue()
    child = mp.get_context("spawn").Process(target=load, args=(numbers,))
    child.start()
    print("loaded", numbers.get(), flush=True)
    mp.spawn(train, nprocs=2)
