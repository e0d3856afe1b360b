"""Ranks tell each other numbers through stores that they make: TCPStores on free and on given ports, a FileStore."""

import os
import socket
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/init", rank=rank, world_size=world)
optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(4))])


def told(store):
    store.set(str(rank), str(rank + 1))
    store.wait([str(other) for other in range(world)], timedelta(minutes=1))
    return sum(int(store.get(str(other))) for other in range(world)), store.add("asked", 0)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False) if rank == 0 else None
ports = [server and server.port, free_port()]
dist.broadcast_object_list(ports)
stores = [
    server or dist.TCPStore("127.0.0.1", ports[0], is_master=False),
    dist.TCPStore("127.0.0.1", ports[1], world, rank == 0),
    dist.FileStore(f"{sys.argv[1]}/store", world),
    dist.PrefixStore("first", dist.TCPStore("127.0.0.1", int(sys.argv[2]), world, rank == 0)),
]
for step in range(4):
    print(step, told(stores[step]))
    stores[step].clone().add("asked", 1)
    optimizer.step()
