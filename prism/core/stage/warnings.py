"""Warnings of a run: what passed here and may not elsewhere; equal ones are told once, with all their ranks."""

from __future__ import annotations

from prism.core.diagnosis import Warning

ATTACH = "attach"
"""The kind of what a rank that waits for a debugger says."""


class Warnings:
    """Collects warnings in the order in which each was first seen."""

    def __init__(self) -> None:
        self._ranks: dict[tuple[str, str], dict[int, None]] = {}

    def add(self, kind: str, summary: str, *ranks: int) -> None:
        """Note a warning about some ranks."""
        self._ranks.setdefault((kind, summary), {}).update(dict.fromkeys(ranks))

    def told(self) -> list[Warning]:
        """All warnings, each with its ranks in ascending order."""
        return [
            Warning(kind=kind, summary=summary, ranks=sorted(ranks)) for (kind, summary), ranks in self._ranks.items()
        ]
