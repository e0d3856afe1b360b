"""The slices of a calibration on several workers: each runs where its bytes are, and what is lost runs again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from prism.core.events import Clocked
from prism.core.measuring.segments import Segments
from prism.crew import Lost
from prism.live.observer import Silent
from prism.stages.measuring import Rounds
from prism.stages.slices import SliceLog

SLICES = ((0,), (1,), (2,), (3,))
HELD = {0: {0: 9}, 1: {0: 5, 1: 1}, 2: {0: 7}, 3: {1: 2}}
"""The bytes of what each rank got, by worker."""


class Workers:
    """Two workers, of which the second may be lost in the round `lost`; notes who ran what."""

    clocks: Mapping[int, Clocked] = {}

    def __init__(self, workers: int = 2, lost: int = -1) -> None:
        self.workers = workers
        self.ran: list[dict[int, tuple[int, ...]]] = []
        self._lost = lost

    async def held(self, ranks: Sequence[int]) -> Mapping[int, int]:
        return HELD[ranks[0]]

    async def measure(self, slices: Mapping[int, Sequence[int]], iterations: int) -> dict[int, list[Segments]]:
        self.ran.append({worker: tuple(ranks) for worker, ranks in slices.items()})
        if len(self.ran) - 1 == self._lost:
            self.workers = 1
            raise Lost("worker-1 was lost")
        return {worker: [Segments([rank]) for rank in ranks] for worker, ranks in slices.items()}


class Heard(Silent):
    """Notes what is said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


async def ran(
    workers: Workers, folder: Path, side_by_side: bool = True
) -> tuple[list[dict[int, tuple[int, ...]]], Heard]:
    heard = Heard()
    rounds = Rounds(SLICES, [3] * len(SLICES), "fast", SliceLog(folder / "slices.log", "digest"), heard)
    await rounds.run(workers, workers.measure, side_by_side)
    assert rounds.segments == [[Segments([rank])] for rank in range(4)]
    return workers.ran, heard


async def test_slices_run_where_their_bytes_are_as_far_as_all_have_a_share(tmp_path: Path) -> None:
    assert (await ran(Workers(), tmp_path))[0] == [{0: (0,), 1: (1,)}, {0: (2,), 1: (3,)}]


async def test_one_at_a_time_runs_where_most_of_its_bytes_are(tmp_path: Path) -> None:
    found, _ = await ran(Workers(), tmp_path, side_by_side=False)
    assert found == [{0: (0,)}, {0: (1,)}, {0: (2,)}, {1: (3,)}]


async def test_one_worker_takes_them_in_turns(tmp_path: Path) -> None:
    assert (await ran(Workers(1), tmp_path))[0] == [{0: (0,)}, {0: (1,)}, {0: (2,)}, {0: (3,)}]


async def test_slices_of_a_lost_worker_run_again_on_what_is_left(tmp_path: Path) -> None:
    found, heard = await ran(Workers(lost=1), tmp_path)
    assert found == [{0: (0,), 1: (1,)}, {0: (2,), 1: (3,)}, {0: (2,)}, {0: (3,)}]
    assert heard.lines == ["worker-1 was lost; ranks 2-3 are timed again on what is left, 1 workers"]
