"""One of each operation, all of which go well, and then an all_reduce that rank 1 leaves out."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
pair = dist.new_group([0, 1])
one = torch.ones(6)
each = [torch.zeros(6) for _ in range(size)]
sent, received = [(rank + other) % 3 for other in range(size)], [(other + rank) % 3 for other in range(size)]

dist.all_reduce(one)
dist.broadcast(one, 1)
dist.reduce(one, 2)
dist.all_gather(each, one)
dist.gather(one, each if rank == 1 else None, dst=1)
dist.scatter(one, each if rank == 2 else None, src=2)
dist.reduce_scatter_single(torch.zeros(2), one)
dist.all_to_all_single(torch.zeros(sum(received)), torch.zeros(sum(sent)), received, sent)
dist.barrier()
works = [dist.isend(one, (rank + 1) % size), dist.isend(one.view(2, 3), (rank + 2) % size)]
for distance in (1, 2):
    dist.recv(each[0], (rank - distance) % size)
works += dist.batch_isend_irecv(
    [dist.P2POp(dist.isend, one, (rank + 1) % size), dist.P2POp(dist.irecv, each[1], (rank - 1) % size)]
)
for work in works:
    work.wait()
if rank < 2:
    dist.all_reduce(one, group=pair)
if rank != 1:
    dist.all_reduce(one)  # site A
