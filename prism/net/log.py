"""Warnings that are given once for each source, so that a peer that keeps knocking cannot fill the log."""

from __future__ import annotations

import logging


class LogOnce:
    """Logs the first complaint about each source and drops the others."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._sources: set[str] = set()

    def warn(self, source: str, complaint: str) -> None:
        """Log `source: complaint` unless this source was complained about before."""
        if source not in self._sources:
            self._sources.add(source)
            self._logger.warning("%s: %s (further ones from there are not logged)", source, complaint)
