"""Messages from rank to rank."""

from __future__ import annotations

import torch
import torch.distributed as dist
from checking import check, main


def mine(count: int) -> torch.Tensor:
    return torch.arange(float(count)) + 10 * dist.get_rank()


def neighbours() -> tuple[int, int]:
    return (dist.get_rank() - 1) % 4, (dist.get_rank() + 1) % 4


@check("send, recv")
def send_recv() -> object:
    before, after = neighbours()
    data = torch.zeros(3)
    if dist.get_rank() % 2 == 0:
        dist.send(mine(3), after)
        source = dist.recv(data, before)
    else:
        source = dist.recv(data, before)
        dist.send(mine(3), after)
    return [data, source]


@check("isend, irecv")
def isend_irecv() -> object:
    before, after = neighbours()
    data = torch.zeros(3)
    works = [dist.isend(mine(3), before), dist.irecv(data, after)]
    for work in reversed(works):
        work.wait()
    return data


@check("tags")
def tags() -> object:
    data = torch.zeros(2, 2)
    works = []
    if dist.get_rank() == 0:
        works = [dist.isend(mine(2) * tag, 1, tag=tag) for tag in (7, 8)]
    elif dist.get_rank() == 1:
        works = [dist.irecv(data[tag - 7], 0, tag=tag) for tag in (8, 7)]
    for work in works:
        work.wait()
    return data


@check("recv from any source, with a tag")
def any_source() -> object:
    if dist.get_rank():
        dist.send(mine(2), 0, tag=5)
        return None
    rows = torch.zeros(3, 2)
    sources = [dist.recv(row, tag=5) for row in rows]
    assert rows[:, 0].tolist() == [10.0 * source for source in sources], (rows, sources)
    return sorted(sources)


@check("batch_isend_irecv")
def batch() -> object:
    before, after = neighbours()
    data = torch.zeros(2, 3)
    ops = [dist.P2POp(dist.isend, mine(3), after), dist.P2POp(dist.isend, mine(3) * 10, before)]
    ops += [dist.P2POp(dist.irecv, data[0], before), dist.P2POp(dist.irecv, data[1], after)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    return data


@check("messages by group rank")
def by_group_rank() -> object:
    group = dist.new_group([1, 3])
    data = torch.zeros(2)
    if dist.get_rank() == 1:
        dist.send(mine(2), group=group, group_dst=1)
    elif dist.get_rank() == 3:
        dist.recv(data, group=group, group_src=0)
    return data


@check("send_object_list, recv_object_list")
def object_lists() -> object:
    found: list[object] = [None, None]
    if dist.get_rank() == 2:
        dist.send_object_list(["text", {"rank": 2}], dst=0)
    elif dist.get_rank() == 0:
        dist.recv_object_list(found, src=2)
    return found


if __name__ == "__main__":
    main()
