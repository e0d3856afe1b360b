"""Where a stage stands: the letters of the ranks, what is done, and how long it may still take."""

from __future__ import annotations

from pathlib import Path

from prism.core.events import Launched, Marked, Pressed
from prism.core.stage.capture import Capture
from prism.core.stage.residency import Place, Residency
from prism.core.stage.world import World
from prism.live.snapshot import INTERVAL_S, Watch, away, host_memory
from tests.core.actors import joined, posted, waited


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def begun() -> World:
    """Four ranks, two of which have slots."""
    world = World(range(4), 2, Capture(range(4)), hang_after=10**12)
    world.start()
    for rank in (0, 1):
        world.handle(Launched(rank=rank, pid=100 + rank))
    return world


def test_it_tells_what_each_rank_does() -> None:
    watch = Watch(host=lambda: (3 << 29, 16 << 30))
    watch.begin("capture")
    seen = watch.look(begun())
    assert seen is not None
    assert seen.states == "rrnn"
    assert seen.text() == "2 not begun, 2 running; iteration 0; memory 1.5 of 16 GiB"


def test_the_memory_of_the_host_is_read_or_left_out(tmp_path: Path) -> None:
    table = tmp_path / "meminfo"
    assert host_memory(table) == (0, 0)
    table.write_text("MemTotal:       16384 kB\nMemFree:        1024 kB\nMemAvailable:   4096 kB\n")
    assert host_memory(table) == (12 << 20, 16 << 20)
    watch = Watch(host=lambda: (0, 0))
    seen = watch.look(begun())
    assert seen is not None
    assert "memory" not in seen.text()


def test_it_tells_whose_memory_is_not_on_a_device() -> None:
    world, watch = begun(), Watch(host=lambda: (0, 0))
    for rank in (0, 1):
        world.handle(joined(rank, range(4)))
        world.handle(posted(rank, 1))
    world.handle(waited(0, 1))
    world.handle(Pressed(rank=1, nbytes=1 << 30))
    assert world.pager.residency.place(0) is Place.LEAVING
    seen = watch.look(world)
    assert seen is not None
    assert seen.text().endswith("; device memory of ranks: 1 on the way, 1 asking for room")
    assert away(Residency()) == {}


def test_it_does_not_look_more_often_than_eyes_need() -> None:
    clock, world = Clock(), begun()
    watch = Watch(clock=clock)
    assert watch.look(world) is not None
    clock.now += INTERVAL_S / 2
    assert watch.look(world) is None
    clock.now += INTERVAL_S
    assert watch.look(world) is not None


def test_iterations_say_how_much_is_done_and_how_long_it_takes() -> None:
    clock, world = Clock(), begun()
    watch = Watch(iterations=4, clock=clock)
    watch.begin("capture")
    for rank in (0, 0, 1, 1):
        world.handle(Marked(rank=rank))
    clock.now = 10.0
    seen = watch.look(world)
    assert seen is not None
    assert seen.iterations == (0, 2)
    assert seen.share == 4 / 16
    assert seen.eta_s == 30.0
    assert "30 s left" in seen.text()


def test_slices_count_as_parts() -> None:
    clock, world = Clock(), begun()
    watch = Watch(iterations=4, clock=clock)
    watch.begin("calibrate")
    watch.step(3, 8)
    clock.now = 1.0
    seen = watch.look(world)
    assert seen is not None
    assert (seen.part, seen.parts, seen.share) == (3, 8, 3 / 8)
