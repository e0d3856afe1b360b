"""A module that lies beside its script."""

import torch


def finish(total: torch.Tensor) -> None:
    assert total.sum() >= 0
