"""What went wrong, in the shape users read it; filled by the world and by the stages."""

from __future__ import annotations

from typing import Literal

import msgspec

SEPARATOR = " < "
"""Between the frames of a call site, innermost first."""


def innermost(site: str) -> str | None:
    """`path:line` of the innermost frame of a call site; None if there is none."""
    return site.partition(SEPARATOR)[0] or None


class RankState(msgspec.Struct, kw_only=True):
    """Where one rank stands: what it is in, on which group, as which operation of it, and from which line."""

    rank: int
    state: str
    op: str | None = None
    group: str | None = None
    seq: int | None = None
    callsite: str | None = None
    traceback: str | None = None
    snapshot: str | None = None


class LastCommon(msgspec.Struct, kw_only=True):
    """The last operation of a group that all its members agree on."""

    op: str
    group: str
    seq: int


class Diagnosis(msgspec.Struct, kw_only=True):
    """Why the program failed or would fail at this scale; `cycle` lists ranks, lowest first."""

    kind: Literal["deadlock", "mismatch", "rank_failed", "oom", "hang", "diverged"]
    summary: str
    ranks: list[RankState] = []
    last_common: LastCommon | None = None
    cycle: list[int] | None = None


class Warning(msgspec.Struct, kw_only=True):
    """What passed here and may not elsewhere."""

    kind: str
    summary: str
    ranks: list[int] = []
