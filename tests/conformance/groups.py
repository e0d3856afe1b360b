"""Process groups: how they are made, what they say of themselves, and how they end."""

from __future__ import annotations

import torch
import torch.distributed as dist
from checking import check, main


def total(group: dist.ProcessGroup) -> float:
    data = torch.tensor([dist.get_rank() + 1.0])
    dist.all_reduce(data, group=group)
    return data.item()


@check("new_group")
def new_group() -> object:
    groups = [dist.new_group([0, 1]), dist.new_group([1, 2, 3])]
    mine = [group for group in groups if dist.get_rank(group) >= 0]
    names = [dist.get_backend(group) for group in mine]
    return [[total(group) for group in mine], [dist.get_process_group_ranks(group) for group in mine], names]


@check("new_group, permuted ranks")
def permuted() -> object:
    group = dist.new_group([3, 1, 2, 0])
    parts = [torch.zeros(1) for _ in range(4)]
    dist.all_gather(parts, torch.tensor([float(dist.get_rank())]), group=group)
    return [parts, dist.get_rank(group), dist.get_group_rank(group, 3), dist.get_global_rank(group, 0)]


@check("new_group, use_local_synchronization")
def local_synchronization() -> object:
    if dist.get_rank() not in (0, 2):
        return None
    return total(dist.new_group([0, 2], use_local_synchronization=True))


@check("new_subgroups")
def new_subgroups() -> object:
    mine, groups = dist.new_subgroups(2)
    return [total(mine), len(groups)]


@check("new_subgroups_by_enumeration")
def new_subgroups_by_enumeration() -> object:
    mine, groups = dist.new_subgroups_by_enumeration([[0, 2], [1, 3]])
    return [total(mine), len(groups)]


@check("nested groups")
def nested() -> object:
    outer, inner = dist.new_group([0, 1, 2]), dist.new_group([1, 2])
    found = [total(group) for group in (outer, inner, outer) if dist.get_rank(group) >= 0]
    return [*found, total(dist.group.WORLD)]


@check("split_group")
def split_group() -> object:
    group = dist.split_group(split_ranks=[[0, 1], [2, 3]])
    return total(group)


@check("sequence numbers")
def sequence_numbers() -> object:
    group = dist.new_group()
    numbers = [group._get_sequence_number_for_group()]
    for _ in range(3):
        total(group)
        numbers.append(group._get_sequence_number_for_group())
    assert [number - numbers[0] for number in numbers] == [0, 1, 2, 3], numbers
    return None


@check("destroy_process_group of one group")
def destroy_one() -> object:
    group = dist.new_group([0, 1])
    if dist.get_rank() < 2:
        total(group)
        dist.destroy_process_group(group)
    return total(dist.group.WORLD)


@check("two groups at once")
def two_at_once() -> object:
    rows, columns = dist.new_subgroups(2)[0], dist.new_subgroups_by_enumeration([[0, 2], [1, 3]])[0]
    data = [torch.tensor([dist.get_rank() + 1.0]) for _ in range(2)]
    groups = (rows, columns) if dist.get_rank() % 2 else (columns, rows)
    works = [dist.all_reduce(data[group is columns], group=group, async_op=True) for group in groups]
    for work in works:
        work.wait()
    return data


if __name__ == "__main__":
    main()
