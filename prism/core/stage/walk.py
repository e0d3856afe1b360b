"""How far a rank has come in its record: its main thread in the recorded order, posts of other threads as they come.

When a thread beside the main one posts, such as one that saves a checkpoint during the training, is chance, and so are
all handles after that. What holds in every run is the order of the main thread's steps, and that of the posts on each
group. A callback counts as either thread: it runs on the main one if its future was done before. So a post repeats the
first one on its group that was not repeated yet, and who hears of posts alone finds the same as who hears of all steps.
"""

from __future__ import annotations

from collections import defaultdict, deque

from prism.core.events import Posted, Timed
from prism.core.measuring.segments import Segments
from prism.core.record import PostStep, RankRecord, Step


class Walk:
    """The steps of a record that a rank has taken, and how long the segments before them took."""

    def __init__(self, record: RankRecord) -> None:
        self.record = record
        self.taken: list[int] = []  # places in the record, in the order in which the rank took them
        self._next = 0  # the first place that was not taken
        self._main = 0  # the first one of the main thread that was not
        self._took = bytearray(len(record.steps))  # whether each was
        self._posts: dict[str, deque[int]] = defaultdict(deque)  # those of posts that were not, by group
        self._handles: dict[int, int] = {}  # those of the record, by the rank's own
        self._ns = [0] * len(record.steps)  # the segment before each
        self._hosts: list[tuple[int, int]] = []  # what the host needs before some places
        for place, step in enumerate(record.steps):
            if isinstance(step, PostStep):
                self._posts[step.group].append(place)
        self._advance()

    @property
    def complete(self) -> bool:
        """Whether all steps have been taken."""
        return self._next == len(self.record.steps)

    @property
    def number(self) -> int:
        """Of the step that was taken last, from 1 on."""
        return self.taken[-1] + 1 if self.taken else 0

    @property
    def segments(self) -> Segments:
        """Those before the steps up to the next one of the main thread; 0 ns before posts not made yet."""
        return Segments(self._ns[: self._main], self._hosts)

    def take(self, now: Step, compute: int = 0) -> Step:
        """The recorded step that is repeated by what the rank does now; any, if it repeats none. Not once complete.

        compute: ns of the segment before it.
        """
        place = self._place(now)
        step = self.record.steps[place]
        if isinstance(step, PostStep):
            self._posts[step.group].remove(place)  # the first one of them
            if isinstance(now, PostStep):
                self._handles[now.handle] = step.handle
        self.taken.append(place)
        self._took[place] = True
        self._ns[place] = compute
        self._advance()
        return step

    def timed(self, event: Timed) -> None:
        """Take other durations for the segments before steps, in the order in which they were taken."""
        for number, duration in enumerate(event.durations, event.first):
            if duration >= 0:
                self._ns[self.taken[number]] = duration
        self._hosts += ((self.taken[number], needs) for number, needs in event.hosts)

    def handles(self, own: tuple[int, ...]) -> tuple[int, ...]:
        """The recorded handles of posts, by the rank's own."""
        return tuple(self._handles.get(handle, -1) for handle in own)

    def left(self) -> Step:
        """The first step that has not been taken."""
        return self.record.steps[self._next]

    def _place(self, now: Step) -> int:
        if not isinstance(now, PostStep):
            return self._main if self._main < len(self._took) else self._next
        of_group = self._posts.get(now.group)
        place = of_group[0] if of_group else self._next
        if now.main and place > self._main and not _beside(self.record.steps[place]):
            return self._next
        return place

    def _advance(self) -> None:
        steps, took = self.record.steps, self._took
        while self._next < len(steps) and took[self._next]:
            self._next += 1
        while self._main < len(steps) and (took[self._main] or _beside(steps[self._main])):
            self._main += 1


def step_of(event: Posted) -> PostStep:
    """The step that a rank takes by a post."""
    return PostStep(event.group, event.handle, event.call, event.site, checksum=event.checksum, main=event.main)


def _beside(step: Step) -> bool:
    """Whether another thread than the main one posted it."""
    return isinstance(step, PostStep) and not step.main
