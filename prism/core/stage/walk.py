"""How far a rank has come in its record: its main thread in the recorded order, posts of other threads as they come.

When a thread beside the main one posts, such as one that saves a checkpoint during the training, is chance, and so are
all handles after that. What holds in every run is the order of the main thread's steps, and that of the posts on each
group. A callback counts as either thread: it runs on the main one if its future was done before.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from prism.core.record import PostStep, RankRecord, Step


class Walk:
    """The steps of a record that a rank has taken, and how long each segment before them took (ns, one a step)."""

    def __init__(self, record: RankRecord) -> None:
        self.record = record
        self.durations: list[int] = []
        self.taken: list[int] = []  # places in the record, in the order in which the rank took them
        self._next = 0  # all places before this one have been taken, and those in _ahead
        self._ahead: set[int] = set()
        self._handles: dict[int, int] = {}  # those of the record, by the rank's own

    @property
    def complete(self) -> bool:
        """Whether all steps have been taken."""
        return self._next == len(self.record.steps)

    @property
    def number(self) -> int:
        """Of the step that was taken last, from 1 on."""
        return self.taken[-1] + 1 if self.taken else 0

    def take(self, now: Step, compute: int) -> Step:
        """The recorded step that is repeated by what the rank does now; any, if it repeats none. Not once complete."""
        place = self._place(now)
        step = self.record.steps[place]
        if isinstance(now, PostStep) and isinstance(step, PostStep):
            self._handles[now.handle] = step.handle
        self.taken.append(place)
        self._ahead.add(place)
        while self._next in self._ahead:
            self._ahead.remove(self._next)
            self._next += 1
        self.durations += [0] * (place + 1 - len(self.durations))
        self.durations[place] = compute
        return step

    def handles(self, own: tuple[int, ...]) -> tuple[int, ...]:
        """The recorded handles of posts, by the rank's own."""
        return tuple(self._handles.get(handle, -1) for handle in own)

    def left(self) -> Step:
        """The first step that has not been taken."""
        return self.record.steps[self._next]

    def _place(self, now: Step) -> int:
        steps = self.record.steps
        if not isinstance(now, PostStep):
            return next((place for place in self._open() if not _beside(steps[place])), self._next)
        first = self.left()
        if isinstance(first, PostStep) and first.group == now.group:
            return self._next
        of_group = (p for p in self._open() if isinstance(step := steps[p], PostStep) and step.group == now.group)
        place = next(of_group, self._next)
        overtaken = takewhile(lambda other: other < place, self._open())
        if now.main and not _beside(steps[place]) and not all(_beside(steps[other]) for other in overtaken):
            return self._next
        return place

    def _open(self) -> Iterator[int]:
        return (place for place in range(self._next, len(self.record.steps)) if place not in self._ahead)


def _beside(step: Step) -> bool:
    """Whether another thread than the main one posted it."""
    return isinstance(step, PostStep) and not step.main
