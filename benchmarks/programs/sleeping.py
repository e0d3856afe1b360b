"""Jobs whose compute is a timed sleep, so that any number of ranks is real on two cores.

    sleeping.py JOB ITERATIONS

JOB: data_parallel (buckets reduced while the backward pass goes on), pipeline (1F1B with uneven stages), interleaved
(two chunks a rank, GPipe order), experts (skewed routing), two_dimensional (pipeline x data parallel), variable
(lengths that change from iteration to iteration), straggler (rank 1 is 1.4 times slower).
Prints `ITER <milliseconds>` for every iteration on every rank.
"""

import sys
import time

import torch
import torch.distributed as dist

job, iterations = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
parameter = torch.nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([parameter], lr=0.0)  # its step ends an iteration
MS = 1e-3


def work(milliseconds):
    time.sleep(milliseconds * MS)


def data_parallel(step, scale=1.0):
    """Forward, then a backward whose buckets are reduced while it goes on."""
    work(40 * scale * (1 + 0.05 * (rank % 3)))
    handles = []
    for _ in range(4):
        work(20 * scale)
        handles.append(dist.all_reduce(torch.ones(64), async_op=True))
    for handle in handles:
        handle.wait()


def one_f_one_b(step, stages, stage, peers, micro_batches=4):
    """1F1B over `stages`; stage k takes 10 + 4k ms forward and twice that backward."""
    forward, backward = 10 + 4 * (stage % 3), 20 + 8 * (stage % 3)
    before = peers[stage - 1] if stage > 0 else None
    after = peers[stage + 1] if stage < stages - 1 else None
    pending = []

    def run_forward():
        if before is not None:
            dist.recv(torch.zeros(16), before)
        work(forward)
        if after is not None:
            pending.append(dist.isend(torch.ones(16), after))

    def run_backward():
        if after is not None:
            dist.recv(torch.zeros(16), after)
        work(backward)
        if before is not None:
            pending.append(dist.isend(torch.ones(16), before))

    warm = min(stages - stage - 1, micro_batches)
    for _ in range(warm):
        run_forward()
    for _ in range(micro_batches - warm):
        run_forward()
        run_backward()
    for _ in range(warm):
        run_backward()
    for handle in pending:
        handle.wait()


def interleaved(step):
    """Two chunks of layers on each rank: the micro-batches go twice round the ranks, and twice back."""
    pending = []
    for direction, cost in ((1, 8 + 3 * (rank % 2)), (-1, 16 + 6 * (rank % 2))):
        for chunk in range(2):
            for _ in range(4):
                hop = chunk * world + (rank if direction > 0 else world - 1 - rank)
                if hop > 0:
                    dist.recv(torch.zeros(16), (rank - direction) % world)
                work(cost)
                if hop < 2 * world - 1:
                    pending.append(dist.isend(torch.ones(16), (rank + direction) % world))
    for handle in pending:
        handle.wait()


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


def pipeline(step):
    one_f_one_b(step, world, rank, range(world))


def two_dimensional(step):
    one_f_one_b(step, world // 2, rank // 2, [2 * s + rank % 2 for s in range(world // 2)])
    dist.all_reduce(torch.ones(64), group=replicas)


def variable(step):
    data_parallel(step, scale=0.6 + 0.2 * ((7 * rank + 3 * step) % 5))


def straggler(step):
    data_parallel(step, scale=1.4 if rank == 1 else 1.0)


replicas = None
if job == "two_dimensional":
    for stage in range(world // 2):
        group = dist.new_group([2 * stage, 2 * stage + 1])
        replicas = group if rank // 2 == stage else replicas
run = globals()[job]
dist.barrier()
start = time.perf_counter()
for step in range(iterations):
    run(step)
    optimizer.step()
    now = time.perf_counter()
    print(f"ITER {1e3 * (now - start):.3f}", flush=True)
    start = now
dist.destroy_process_group()
