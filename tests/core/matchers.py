"""Matchers for tests: groups that have been made, and posts on them."""

from __future__ import annotations

from prism.core.calls import Call
from prism.core.stage.matching import Matcher
from prism.core.stage.op import Op
from tests.core.actors import posted

WORLD = (0, 1, 2)


def matcher(*groups: tuple[str, tuple[int, ...]], backend: str = "gloo") -> Matcher:
    """A matcher whose groups (left out: one of three ranks) have been made by all their members."""
    made = Matcher()
    for name, ranks in groups or (("default", WORLD),):
        for rank in ranks:
            made.join(rank, name, ranks, backend)
    return made


def post(of: Matcher, rank: int, posting: Call, handle: int = 1, group: str = "default") -> Op | None:
    return of.post(posted(rank, handle, posting, group))
