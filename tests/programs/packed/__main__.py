"""A loop without an optimizer, run with `-m`: a function of what runs as `__main__` ends an iteration."""

import torch
import torch.distributed as dist

from tests.programs.packed import finish


def make_a_step(number: int) -> torch.Tensor:
    total = torch.ones(3) * number
    dist.all_reduce(total)
    return total


def main() -> None:
    dist.init_process_group("gloo")
    for number in range(4):
        finish(make_a_step(number))


main()
