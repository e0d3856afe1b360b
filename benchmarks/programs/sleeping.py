"""Jobs whose compute is a timed sleep, so that any number of ranks is real on a few cores.

    sleeping.py JOB ITERATIONS [RANK FACTOR]

JOB: data_parallel (buckets reduced while the backward pass goes on), variable (the same with lengths that change from
iteration to iteration), pipeline (1F1B), zero_bubble (ZB-H1), interleaved (1F1B, two chunks a rank), breadth_first
(GPipe's order, two chunks a rank), two_dimensional (pipeline x data parallel), experts (skewed routing). All stages and
ranks are uneven. RANK, if given, computes FACTOR times as long.
"""

import sys
import time

import schedules
import torch
import torch.distributed as dist

job, iterations = sys.argv[1], int(sys.argv[2])
slow_rank, factor = (int(sys.argv[3]), float(sys.argv[4])) if len(sys.argv) > 3 else (-1, 1.0)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
parameter = torch.nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([parameter], lr=0.0)  # its step ends an iteration


def work(milliseconds):
    time.sleep(1e-3 * milliseconds * (factor if rank == slow_rank else 1.0))


def data_parallel(step, scale=1.0):
    work(40 * scale * (1 + 0.05 * (rank % 3)))
    handles = []
    for _ in range(4):
        work(20 * scale)
        handles.append(dist.all_reduce(torch.ones(64), async_op=True))
    for handle in handles:
        handle.wait()


def variable(step):
    data_parallel(step, scale=0.6 + 0.2 * ((7 * rank + 3 * step) % 5))


def run(order, costs, peers=range(world), chunks=1):
    """The tasks of one pipeline, whose r-th rank is peers[r], in their order; costs in ms by kind."""
    stages, mine, pending = chunks * len(peers), peers.index(rank), []
    for kind, chunk, _ in order:
        stage = chunk * len(peers) + mine
        direction = {"F": 1, "B": -1, "W": 0}[kind]
        if direction and 0 <= stage - direction < stages:
            dist.recv(torch.zeros(16), peers[(mine - direction) % len(peers)], tag="FB".index(kind))
        work(costs[kind])
        if direction and 0 <= stage + direction < stages:
            after = peers[(mine + direction) % len(peers)]
            pending.append(dist.isend(torch.ones(16), after, tag="FB".index(kind)))
    for handle in pending:
        handle.wait()


def pipeline(step):
    run(schedules.one_f_one_b(world, rank, 4), {"F": 10 + 4 * (rank % 3), "B": 20 + 8 * (rank % 3)})


def zero_bubble(step):
    each = 10 + 4 * (rank % 3)
    run(schedules.zero_bubble(world, rank, 8), {"F": each, "B": each, "W": each})


def interleaved(step):
    costs = {"F": 8 + 3 * (rank % 2), "B": 16 + 6 * (rank % 2)}
    run(schedules.interleaved(world, rank, world, 2), costs, chunks=2)


def breadth_first(step):
    run(schedules.breadth_first(4, 2), {"F": 8 + 3 * (rank % 2), "B": 16 + 6 * (rank % 2)}, chunks=2)


def two_dimensional(step):
    stage, replica = rank // 2, rank % 2
    order = schedules.one_f_one_b(world // 2, stage, 4)
    run(order, {"F": 10 + 4 * (stage % 3), "B": 20 + 8 * (stage % 3)}, peers=range(replica, world, 2))
    dist.all_reduce(torch.ones(64), group=replicas)


def experts(step):
    """Tokens go to skewed experts and back, twice; the router differs from iteration to iteration."""
    for layer in range(2):
        counts = [1 + (rank + peer + layer + step) % 3 for peer in range(world)]
        sizes = torch.empty(world, dtype=torch.int64)
        dist.all_to_all_single(sizes, torch.tensor(counts))
        received = torch.empty(int(sizes.sum()), 4)
        dist.all_to_all_single(received, torch.ones(sum(counts), 4), sizes.tolist(), counts)
        work(10.0 * len(received) / world)
        dist.all_to_all_single(torch.empty(sum(counts), 4), received, counts, sizes.tolist())
        work(15)


replicas = None
if job == "two_dimensional":
    for stage in range(world // 2):
        group = dist.new_group([2 * stage, 2 * stage + 1])
        replicas = group if rank // 2 == stage else replicas
dist.barrier()
for step in range(iterations):
    globals()[job](step)
    optimizer.step()
dist.destroy_process_group()
