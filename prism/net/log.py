"""Warnings that are given once for each source, so that a peer that keeps knocking cannot fill the log."""

from __future__ import annotations

import logging

MOST = 1000
"""Sources that are told apart: those that can name themselves could name themselves anything."""


class LogOnce:
    """Logs the first complaint about each of the first sources and drops the others."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._sources: set[str] = set()

    def warn(self, source: str, complaint: str) -> None:
        """Log `source: complaint` unless this source was complained about before."""
        if source not in self._sources and len(self._sources) < MOST:
            self._sources.add(source)
            self._logger.warning("%s: %s (further ones from there are not logged)", source, complaint)
