"""CUDA's random numbers, drawn from the CPU's generator: one sequence for both.

A seed or a state set on either side is set on both. States are the CPU generator's 5,056 bytes, not CUDA's 16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from prism.gpu.presented.placement import CPU, Placement

_CPU_GENERATOR: Any = torch.Generator


class _AlsoTorchs(type(_CPU_GENERATOR)):  # type: ignore[misc]
    def __instancecheck__(cls, given: object) -> bool:
        return isinstance(given, _CPU_GENERATOR)


class Generator(_CPU_GENERATOR, metaclass=_AlsoTorchs):  # type: ignore[misc]
    """torch.Generator for any device; torch's own ones are instances too."""

    placement: Placement
    _said: torch.device

    def __new__(cls, device: Any = CPU) -> Generator:
        made: Generator = super().__new__(cls, cls.placement.actual(device))
        made._said = torch.device(device) if isinstance(device, str | torch.device) else cls.placement.device
        return made

    def __init__(self, device: Any = CPU) -> None:
        super().__init__()

    @property
    def device(self) -> torch.device:
        """The device that was asked for."""
        return self._said


class Randomness:
    """torch.cuda.random; each method is the function of that name."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement

    def get_rng_state(self, device: Any = "cuda") -> torch.Tensor:
        self._placement.index(device)
        return torch.get_rng_state()

    def get_rng_state_all(self) -> list[torch.Tensor]:
        return [torch.get_rng_state() for _ in range(self._placement.count)]

    def set_rng_state(self, new_state: torch.Tensor, device: Any = "cuda") -> None:
        self._placement.index(device)
        torch.set_rng_state(new_state)

    def set_rng_state_all(self, new_states: Sequence[torch.Tensor]) -> None:
        torch.set_rng_state(new_states[self._placement.current])

    def manual_seed(self, seed: int) -> None:
        torch.default_generator.manual_seed(int(seed))

    def manual_seed_all(self, seed: int) -> None:
        torch.default_generator.manual_seed(int(seed))

    def seed(self) -> None:
        torch.default_generator.seed()

    def seed_all(self) -> None:
        torch.default_generator.seed()

    def initial_seed(self) -> int:
        return torch.initial_seed()


def install(placement: Placement) -> None:
    """Replace torch.cuda's functions and the generators."""
    randomness = Randomness(placement)
    for name in vars(Randomness):
        if not name.startswith("_"):
            setattr(torch.cuda, name, getattr(randomness, name))
            setattr(torch.cuda.random, name, getattr(randomness, name))
    cuda: Any = torch.cuda
    cuda.default_generators = (torch.default_generator,) * placement.count
    Generator.placement = placement
    torch.Generator = Generator  # type: ignore[misc]
