"""The clock of an emulation: CLOCK_MONOTONIC, or, on several hosts, what they agree on; for Python and the engine."""

from __future__ import annotations

import time

from prism.gpu.pruned import abi

_ahead = 0  # ns


def set_ahead(ahead: int, lead: int = 0) -> None:
    """The clock that all hosts agree on is so many ns ahead of this host's own; once, as a process starts.

    `lead`: how many ns before its time the engine lets go of what goes to another host, which holds it until then.
    """
    global _ahead
    _ahead = ahead
    if ahead or lead:
        if not settable():
            raise RuntimeError("prism.gpu._pruned is of an older build, which knows one host; run `make ext`")
        abi.library.pruned_set_clock(ahead, lead)


def settable() -> bool:
    """Whether the engine is of a build that knows of other hosts' clocks."""
    return hasattr(abi.library, "pruned_set_clock")


def now() -> int:
    """The time in ns."""
    return time.monotonic_ns() + _ahead
