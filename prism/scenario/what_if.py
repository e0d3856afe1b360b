"""The variants of a replay: what may be other than it was captured."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from prism.scenario.block import Block, Count, Factor, Nanoseconds
from prism.scenario.blocks import World
from prism.scenario.network import NetworkChange


class Slow(Block, frozen=True, kw_only=True, rename={"since": "from"}):
    """Some ranks compute slower (factor above 1) or faster (below 1); times count from the start of the replay."""

    ranks: Annotated[tuple[int, ...], Meta(min_length=1)]
    factor: Factor
    since: Nanoseconds | None = None
    """`from` in a file; null: from the start."""

    until: Nanoseconds | None = None
    """Null: to the end."""

    period: Nanoseconds | None = None
    """Slow from `from` to `until`, and again after every such time, as with thermal throttling; null: once."""

    @property
    def is_timed(self) -> bool:
        """Whether it depends on the time of the replay."""
        return self.since is not None or self.until is not None


class Speed(Block, frozen=True, kw_only=True):
    """All ranks compute so many times as long: a slower device (factor above 1), or a faster one (below 1)."""

    factor: Factor


class Fail(Block, frozen=True, kw_only=True):
    """A rank stops at a time that counts from the start of the replay."""

    rank: int
    at: Nanoseconds


class Jitter(Block, frozen=True, kw_only=True):
    """Every compute segment is drawn from a lognormal distribution around its duration, and the job replayed."""

    sigma: Annotated[float, Meta(gt=0, le=2)]
    """Standard deviation of the logarithm: 0.05 is about 5 %."""

    seed: Annotated[int, Meta(ge=0)] = 0
    draws: Annotated[int, Meta(ge=1, le=10_000)] = 100


class MicroBatches(Block, frozen=True, kw_only=True, rename={"before": "from", "after": "to"}):
    """Each iteration of a pipeline has another number of micro-batches."""

    before: Annotated[int, Meta(ge=2)]
    """`from` in a file: how many the program has; of one alone nothing tells how it goes on."""

    after: Count
    """`to` in a file."""


class Routing(Block, frozen=True, kw_only=True):
    """Tokens go to experts in another proportion, where one all_to_all takes them there and another back."""

    hottest: Annotated[float, Meta(ge=1, le=10**6)]
    """What the busiest rank of a group gets, over the mean of all its ranks; 1: all get the same."""

    group: str | None = None
    """The process group that routes, by its name; null: all that do."""


class Replicas(Block, frozen=True, kw_only=True):
    """The mesh of the job is longer along one dimension, whose new ranks do what those that were captured do."""

    mesh: dict[str, Count]
    """Dimension to extent, as captured; row-major, the last varies fastest."""

    over: str
    """The dimension."""

    to: Count
    """Its extent in the variant, a multiple of the captured one."""


class WhatIf(Block, frozen=True, kw_only=True):
    """A variant of the replay."""

    name: str
    slow: Slow | None = None
    speed: Speed | None = None
    fail: Fail | None = None
    jitter: Jitter | None = None
    network: NetworkChange = NetworkChange()
    micro_batches: MicroBatches | None = None
    routing: Routing | None = None
    replicas: Replicas | None = None

    def world(self, captured: World) -> World:
        """The world that the variant replays."""
        if self.replicas is None:
            return captured
        size = captured.size // self.replicas.mesh[self.replicas.over] * self.replicas.to
        return msgspec.structs.replace(captured, size=size)
