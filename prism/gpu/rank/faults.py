"""Misfortunes that a rank acts out on itself, where an iteration begins: the scenario's `faults`.

Iteration 0 begins with the program, iteration k > 0 when mark k has been told.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterable
from typing import NoReturn

import torch

from prism.gpu.rank.link import Link
from prism.net.messages import Misfortune

ASLEEP_S = 3600.0
EXIT_CODE = 1


class Faults:
    """Those of one rank; compute is slowed down through its link."""

    def __init__(self, faults: Iterable[Misfortune], link: Link) -> None:
        self._own = [fault for fault in faults if fault.rank == link.rank]
        self._link = link

    def begin(self, iteration: int) -> None:
        """Act out what starts with this iteration, and end what ends with it; may raise, and may never return."""
        slow = [f for f in self._own if f.do == "slow" and f.iteration <= iteration < (f.until or math.inf)]
        self._link.slowdown = math.prod(fault.factor for fault in slow)
        for fault in self._own:
            if fault.iteration == iteration:
                _act(fault.do, f"fault injected at the start of iteration {iteration}: {fault.do}")

    def missed(self, iterations: int) -> list[str]:
        """The faults that never began in a program of so many iterations, in words."""
        return [
            f"the fault {fault.do!r} of rank {fault.rank} was to begin at iteration {fault.iteration}, but its program "
            f"ended after {iterations}"
            for fault in self._own
            if fault.iteration > iterations
        ]


def _act(what: str, told: str) -> None:
    print(told, file=sys.stderr)
    match what:
        case "hang":
            _hang()
        case "exit":
            os._exit(EXIT_CODE)  # nothing is said, flushed or cleaned up
        case "raise":
            raise RuntimeError(told)
        case "oom":
            raise torch.OutOfMemoryError(told)


def _hang() -> NoReturn:
    while True:
        time.sleep(ASLEEP_S)
