"""Times all_reduce: prints `TIME <elements> <microseconds>` on rank 0, the median of some repetitions."""

import statistics
import sys
import time

import torch
import torch.distributed as dist

elements, repetitions = int(sys.argv[1]), int(sys.argv[2])
dist.init_process_group("gloo")
x = torch.ones(elements)
times = []
for _ in range(repetitions + 2):
    dist.barrier()
    start = time.perf_counter()
    dist.all_reduce(x)
    times.append(time.perf_counter() - start)
if dist.get_rank() == 0:
    print(f"TIME {elements} {1e6 * statistics.median(times[2:]):.1f}", flush=True)
    source, target = torch.ones(elements), torch.empty(elements)
    copies = []
    for _ in range(7):
        start = time.perf_counter()
        target.copy_(source)
        copies.append(time.perf_counter() - start)
    print(f"COPY {elements} {1e6 * statistics.median(copies):.1f}", flush=True)
dist.destroy_process_group()
