"""Running the slices of a calibration, one on each worker at a time, until all have been measured."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, Protocol

from prism.core.events import Clocked
from prism.core.measuring.segments import Segments
from prism.core.placement import deal
from prism.crew import Lost
from prism.live.observer import Observer
from prism.report.units import rank_ranges
from prism.stages.slices import SliceLog

Slice = Sequence[int]
"""Ranks that are timed at one time, on one worker."""

Measure = Callable[[Mapping[int, Slice], int], Awaitable[Mapping[int, list[Segments]]]]
"""Times slices by their workers, for so many iterations; gives the segments of each worker's ranks. Raises Lost."""


class Workers(Protocol):
    """Who measures."""

    @property
    def clocks(self) -> Mapping[int, Clocked]:
        """How the devices of ranks on a GPU ran while they were timed."""

    @property
    def workers(self) -> int:
        """How many there are now; some may be lost on the way."""

    async def held(self, ranks: Slice) -> Mapping[int, int]:
        """How many bytes of what these ranks got in the capture lie on each worker."""


class Rounds:
    """What has been measured of one round of slices, and what is still to be; `log` keeps it over a kill."""

    def __init__(
        self,
        slices: Sequence[Slice],
        iterations: Sequence[int],
        answers: Literal["fast", "paced"],
        log: SliceLog,
        observer: Observer,
    ) -> None:
        self._slices = slices
        self._iterations = iterations
        self._answers = answers
        self._log = log
        self._observer = observer
        self.segments = [log.find(answers, *one) for one in zip(slices, iterations, strict=True)]

    async def run(self, workers: Workers, measure: Measure, side_by_side: bool) -> None:
        """Measure the slices that are not known; those of a worker that is lost run again on the others.

        `side_by_side`: as many at one time as there are workers.
        """
        self._tell_known()
        while to_do := [number for number, known in enumerate(self.segments) if known is None]:
            self._observer.step(len(self._slices) - len(to_do), len(self._slices))
            alike = [number for number in to_do if self._iterations[number] == self._iterations[to_do[0]]]
            await self._measure(workers, measure, await self._deal(workers, alike if side_by_side else alike[:1]))

    async def _deal(self, workers: Workers, to_do: Sequence[int]) -> dict[int, int]:
        """The slices to run at one time, by their workers: where what they got lies, as far as all have a share."""
        if workers.workers <= 1:
            return {0: to_do[0]}
        held = [await workers.held(self._slices[number]) for number in to_do]
        dealt: dict[int, int] = {}
        for number, worker in zip(to_do, deal(held, workers.workers), strict=True):
            dealt.setdefault(worker, number)
        return dict(sorted(dealt.items(), key=lambda item: item[1]))

    async def _measure(self, workers: Workers, measure: Measure, dealt: Mapping[int, int]) -> None:
        iterations = self._iterations[next(iter(dealt.values()))]
        try:
            found = await measure({worker: self._slices[number] for worker, number in dealt.items()}, iterations)
        except Lost as error:
            if not workers.workers:
                raise
            again = rank_ranges(rank for number in dealt.values() for rank in self._slices[number])
            self._observer.say(f"{error}; ranks {again} are timed again on what is left, {workers.workers} workers")
            return
        for worker, number in dealt.items():
            self.segments[number] = found[worker]
            self._log.add(self._answers, self._slices[number], iterations, found[worker], workers.clocks)

    def _tell_known(self) -> None:
        known = [number for number, one in enumerate(self.segments, 1) if one is not None]
        if known:
            text = f"slices {rank_ranges(known)} of {len(self._slices)} used again ({self._answers})"
            self._observer.say(text)
