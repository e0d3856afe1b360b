"""A package that is run as a program, with `-m`; a function of it ends an iteration."""

import torch


def finish(total: torch.Tensor) -> None:
    assert total.sum() >= 0
