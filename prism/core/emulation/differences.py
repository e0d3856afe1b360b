"""In what a post differs from the one that was expected, in words."""

from __future__ import annotations

from collections.abc import Iterator

from prism.core.calls import Call
from prism.core.graph import OpKind
from prism.core.stage.op import UNEVEN

FIELDS = {
    "dtype": "dtype", "reduce": "reduction", "root": "root", "peer": "peer", "tag": "tag", "count": "elements",
    "shape": "shape", "send": "sizes sent", "recv": "sizes awaited",
}  # fmt: skip
"""What calls of one operation may differ in, and how users call it."""


def differences(expected: Call, now: Call) -> Iterator[str]:
    """In what a call differs from one that a rank has made before."""
    yield from _in_fields(expected, now, list(FIELDS))


def differences_from_lane(expected: Call, now: Call) -> Iterator[str]:
    """In what a call differs from what a lane tells of it (prism.core.emulation.lane_steps).

    That is no shape, no splits, who a receive was from but not whether from anyone, and the most that a member brings.
    """
    known = ["dtype", "reduce", "root"]
    if now.peer >= 0:
        known.append("peer")
    if now.sends:
        known.append("tag")
    may_be_less = now.kind in UNEVEN or now.kind is OpKind.SEND_RECV
    if now.count > expected.count or not may_be_less:
        known.append("count")
    yield from _in_fields(expected, now, known)


def _in_fields(expected: Call, now: Call, fields: list[str]) -> Iterator[str]:
    if expected.name != now.name:
        yield f"operation {now.name}, not {expected.name}"
        return
    for name in fields:
        then, is_now = getattr(expected, name), getattr(now, name)
        if then != is_now:
            yield f"{FIELDS[name]} {_told(is_now)}, not {_told(then)}"


def _told(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
