"""A pipeline (1F1B) of as many stages as the first argument says, times data parallel; compute is a timed sleep.

    meshed.py STAGES ITERATIONS [mesh]

Ranks are laid out stage by stage: rank = stage x replicas + replica. Rank 0 prints `INIT` and, in seconds, how long its
process is there when the script begins, the CPU time of that, and both again for making all groups. With `mesh` these
are those of a device mesh too: a group for each stage, and one for each replica.
"""

import os
import sys
import time

import schedules
import torch
import torch.distributed as dist


def alive() -> float:
    """Seconds since this process began."""
    with open("/proc/self/stat") as stat:
        ticks = int(stat.read().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


stages, iterations = int(sys.argv[1]), int(sys.argv[2])
begun, cpu_begun = alive(), time.process_time()
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
replicas = world // stages
stage, replica = divmod(rank, replicas)
group, _ = dist.new_subgroups_by_enumeration([[s * replicas + r for r in range(replicas)] for s in range(stages)])
if "mesh" in sys.argv:
    dist.init_device_mesh("cpu", (stages, replicas))
if rank == 0:
    print(f"INIT {begun:.2f} {cpu_begun:.2f} {alive() - begun:.2f} {time.process_time() - cpu_begun:.2f}", flush=True)
parameter = torch.nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([parameter], lr=0.0)
costs = {"F": 0.010 + 0.004 * (stage % 3), "B": 0.020 + 0.008 * (stage % 3)}

for _ in range(iterations):
    pending = []
    for kind, _, _ in schedules.one_f_one_b(stages, stage, 8):
        step = 1 if kind == "F" else -1
        if 0 <= stage - step < stages:
            dist.recv(torch.zeros(16), rank - step * replicas)
        time.sleep(costs[kind])
        if 0 <= stage + step < stages:
            pending.append(dist.isend(torch.ones(16), rank + step * replicas))
    for handle in pending:
        handle.wait()
    dist.all_reduce(torch.ones(256), group=group)
    optimizer.step()
dist.destroy_process_group()
