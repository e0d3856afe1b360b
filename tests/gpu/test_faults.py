"""From when until when a rank is slow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from prism.gpu.rank.faults import Faults
from prism.gpu.rank.link import Link
from prism.net.messages import Misfortune


@dataclass
class Slowed:
    """What faults know of a link."""

    rank: int
    slowdown: float = 1.0


def slowdowns(rank: int, *faults: Misfortune) -> list[float]:
    """The factors of the first five iterations."""
    link = Slowed(rank)
    acted = Faults(faults, cast(Link, link))
    factors = []
    for iteration in range(5):
        acted.begin(iteration)
        factors.append(link.slowdown)
    return factors


def test_slow_lasts_from_its_start_to_its_end() -> None:
    fault = Misfortune(rank=2, iteration=1, do="slow", until=3, factor=1.5)
    assert slowdowns(2, fault) == [1, 1.5, 1.5, 1, 1]
    assert slowdowns(0, fault) == [1, 1, 1, 1, 1]


def test_slow_without_an_end_stays_and_factors_multiply() -> None:
    faults = Misfortune(0, 0, "slow", factor=2), Misfortune(0, 2, "slow", until=4, factor=3)
    assert slowdowns(0, *faults) == [2, 2, 6, 6, 2]
