"""A crew that serves many tests: ranks find the environment of the moment in which their run begins."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from prism.crew import Crew
from prism.gpu.processes.fork_server import ENVIRONMENT
from prism.net.messages import Setup

OURS = frozenset(map(os.fsencode, ENVIRONMENT))
"""Variables that stay as the fork server has them."""


class LastingCrew(Crew):
    """Its workers keep the environment in which it began; each stage is told what has changed since."""

    def __init__(self) -> None:
        super().__init__()
        self._began = dict(os.environb)

    async def prepare(self, setup: Setup, places: Mapping[int, int] | None = None) -> None:
        """Set the workers up for a stage, with the environment of now."""
        await super().prepare(msgspec.structs.replace(setup, changed=_changes(self._began, os.environb)), places)


def _changes(before: Mapping[bytes, bytes], now: Mapping[bytes, bytes]) -> dict[bytes, bytes | None]:
    """Variables that are others now; None: gone."""
    names = (before.keys() | now.keys()) - OURS
    return {name: now.get(name) for name in names if now.get(name) != before.get(name)}
