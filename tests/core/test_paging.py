"""Ranks that share a device too small for all of them: who leaves, who comes, and what is said when."""

from __future__ import annotations

import random

import pytest

from prism.core.events import AnyEvent, Delivered, Exited, Finished, Folded, PagedIn, PagedOut, Pressed, Probed
from prism.core.instructions import AnyInstruction, Deliver, PageIn, PageOut, Probe, Release, Room, Run, Suspend
from prism.core.stage import residency
from prism.core.stage.admission import UNBOUNDED, HostMemory
from prism.core.stage.residency import SPARE, Place, ResidencyCount
from prism.core.stage.turns import QUANTUM, SCARCE
from tests.core import sharing_device
from tests.core.actors import RESULT, Stage, all_reduce, blocked, bytes_of, joined, launched, posted, waited
from tests.core.sharing_programs import Programs, Step, peak, programs

GIB = 1 << 30


def pressed(rank: int, nbytes: int = GIB, free: int = 0) -> Pressed:
    return Pressed(rank=rank, nbytes=nbytes, free=free)


def left(rank: int, nbytes: int = 24 * GIB, free: int = 24 * GIB, disk: bool = False) -> PagedOut:
    return PagedOut(rank=rank, nbytes=nbytes, ns=1, free=free, disk=disk)


def came(rank: int, free: int = 0, disk: bool = False) -> PagedIn:
    return PagedIn(rank=rank, nbytes=24 * GIB, ns=1, free=free, disk=disk)


def in_turn(size: int, memory: HostMemory = UNBOUNDED) -> Stage:
    """One slot; all but the last rank have posted an all_reduce and wait for it, the last one runs."""
    stage = Stage(size, slots=1, memory=memory)
    for rank in range(size):
        stage.now += 1
        stage.hear(launched(rank), joined(rank, range(size)))
        if rank < size - 1:
            stage.hear(posted(rank, 1, all_reduce(), payload=bytes_of(rank, 1)), waited(rank, 1))
    return stage


def paged(stage: Stage) -> list[AnyInstruction]:
    """The last rank of four asks twice: two leave for it; then it waits for the all_reduce too, and folds it."""
    assert stage.hear(pressed(3)) == [PageOut(rank=2)]
    assert stage.hear(left(2)) == [Room(rank=3)]
    assert stage.hear(pressed(3)) == [PageOut(rank=1)]
    assert stage.hear(left(1)) == [Room(rank=3)]
    stage.hear(posted(3, 1, all_reduce(), payload=bytes_of(3, 1)))
    return stage.hear(waited(3, 1))


def ended(device: sharing_device.Device, seed: int) -> ResidencyCount:
    """What has moved in a run in which all ranks came to their ends."""
    world = device.stage.world
    assert (world.diagnosis, world.broke) == (None, ""), f"seed {seed}: {world.diagnosis} {world.broke}"
    assert not any(process.out_of_memory for process in device.processes.values()), f"seed {seed}"
    return world.pager.residency.count


def test_without_pressure_nothing_is_said() -> None:
    stage = in_turn(4)
    assert stage.hear(posted(3, 1, all_reduce(), payload=bytes_of(3, 1))) != []
    assert stage.world.pager.residency.quiet


def test_who_blocked_last_leaves_for_a_rank_that_asks() -> None:
    stage = in_turn(4)
    assert stage.hear(pressed(3)) == [PageOut(rank=2)]
    assert stage.hear(left(2)) == [Room(rank=3)]
    assert stage.hear(pressed(3)) == [PageOut(rank=1)]
    assert stage.hear(left(1)) == [Room(rank=3)]


def test_a_rank_that_waits_for_others_that_wait_leaves_before_one_whose_turn_is_next() -> None:
    stage = Stage(3, slots=1)
    stage.hear(launched(0), *(joined(0, ranks, name) for name, ranks in (("a", (0, 1)), ("b", (1, 2)))))
    blocked(stage, 0, 1, group="a")  # for 1, which waits for 2
    stage.now += 1
    stage.hear(launched(1), *(joined(1, ranks, name) for name, ranks in (("a", (0, 1)), ("b", (1, 2)))))
    blocked(stage, 1, 1, group="b")
    stage.now += 1
    stage.hear(launched(2), joined(2, (1, 2), "b"))
    assert stage.hear(pressed(2)) == [PageOut(rank=0)]


def test_where_nobody_can_leave_the_rank_is_told_so() -> None:
    stage = in_turn(2)
    assert stage.hear(pressed(1)) == [PageOut(rank=0)]
    assert stage.hear(left(0)) == [Room(rank=1)]
    assert stage.hear(pressed(1)) == [Room(rank=1, granted=False)]


def test_a_rank_waits_for_room_while_others_run() -> None:
    stage = Stage(2)
    stage.up()
    assert stage.hear(pressed(0)) == []
    stage.hear(posted(1, 1, all_reduce(), payload=bytes_of(1, 1)))
    assert stage.hear(waited(1, 1)) == [PageOut(rank=1)]


def test_a_rank_whose_result_is_on_its_way_stays() -> None:
    stage = Stage(3)
    stage.up()
    stage.hear(*(posted(rank, 1, all_reduce(), payload=bytes_of(rank, 1)) for rank in range(3)))
    stage.hear(waited(0, 1), posted(1, 2, all_reduce(), payload=bytes_of(1, 2), staged=False), waited(1, 2))
    stage.world.ledger.open("deliver", 0, 1)
    assert stage.hear(pressed(2)) == []


def spoken(stage: Stage, *events: AnyEvent) -> list[AnyInstruction]:
    """What is said to these events, but for the bytes that nobody needs any more."""
    return [one for one in stage.hear(*events) if not isinstance(one, Release)]


def test_what_touches_the_memory_of_a_rank_is_told_once_it_is_back() -> None:
    stage = in_turn(4)
    paged(stage)
    result = {"handle": 1, "result": RESULT}
    # The next in line comes while rank 0 computes, and the last leaves; both have their results with their slots.
    assert spoken(stage, Folded(rank=3, op=0, results=(RESULT,))) == [
        Deliver(rank=0, **result),
        Run(rank=0),
        PageOut(rank=3),
        PageIn(rank=1, beside=True),
    ]
    assert spoken(stage, Delivered(rank=0, handle=1)) == []
    assert spoken(stage, left(3), came(1)) == []
    stage.now += 1
    stage.hear(posted(0, 2, all_reduce(), payload=bytes_of(0, 2)))
    assert spoken(stage, waited(0, 2)) == [
        Deliver(rank=1, **result),
        Run(rank=1),
        PageOut(rank=0),
        PageIn(rank=2, beside=True),
    ]


def test_a_rank_that_gets_its_slot_while_away_goes_on_once_it_is_back() -> None:
    stage = in_turn(2)
    stage.hear(pressed(1), left(0))
    stage.hear(posted(1, 1, all_reduce(), payload=bytes_of(1, 1)))
    stage.hear(waited(1, 1))
    result = {"handle": 1, "result": RESULT}
    assert spoken(stage, Folded(rank=1, op=0, results=(RESULT,))) == [PageOut(rank=1), PageIn(rank=0, beside=True)]
    for _ in range(8):
        assert stage.pass_time(QUANTUM) == []  # it is not looked at: it cannot go on yet
    assert spoken(stage, left(1), came(0)) == [Deliver(rank=0, **result), Run(rank=0)]


def test_what_is_brought_leaves_room_for_contexts() -> None:
    stage = in_turn(4)
    paged(stage)
    places = stage.world.pager.residency
    places._free = {0: 24 * GIB + SPARE}
    assert places.makes_room(1, iter([3])) == ([], True)
    places._free[0] -= 1
    assert places.makes_room(1, iter([3])) == ([3], True)
    assert places.makes_room(1, iter([])) == ([], False)


def test_a_rank_that_asks_is_not_taken_for_stuck() -> None:
    stage = in_turn(2)
    stage.hear(pressed(1))
    for _ in range(8):
        stage.pass_time(QUANTUM)
        stage.hear(Probed(rank=1, waiting=True))
    assert stage.world.diagnosis is None


def test_where_memory_is_short_a_rank_that_neither_waits_nor_says_anything_is_stopped_in_the_end() -> None:
    stage = in_turn(4)
    stage.hear(pressed(3), left(2))
    stage.world.slots.enqueue(0)
    for _ in range(SCARCE):
        assert stage.pass_time(QUANTUM * SCARCE) == [Probe(rank=3)]
        told = stage.hear(Probed(rank=3, waiting=False))
    assert told == [Suspend(rank=3)]


def test_when_a_process_ends_those_who_ask_try_again() -> None:
    stage = Stage(2)
    stage.up()
    stage.hear(pressed(0))
    stage.hear(Finished(rank=1, code=0))
    assert Room(rank=0) in stage.hear(Exited(rank=1, code=0))


def test_the_coldest_copy_goes_to_disk_where_host_memory_is_full() -> None:
    stage = in_turn(4, HostMemory(pages_spill=True))
    stage.hear(pressed(3))
    stage.hear(left(2), pressed(3))
    full = PagedOut(rank=1, error="the host pool is full", full=True)
    assert stage.hear(full) == [PageOut(rank=2, disk=True)]
    assert stage.hear(left(2, disk=True)) == [PageOut(rank=1)]
    count = stage.world.pager.residency.count
    assert (count.paged.out.count, count.spilled.out.count) == (1, 1)


def test_without_a_folder_for_it_a_full_host_ends_the_run() -> None:
    stage = in_turn(4)
    stage.hear(pressed(3), left(2), pressed(3))
    stage.hear(PagedOut(rank=1, error="the host pool is full", full=True))
    assert stage.world.broke == (
        "the host pool is full; raise devices.host_memory, or set devices.spill to a folder on a disk"
    )


def test_a_rank_leaves_a_full_host_alone_until_another_has_come_from_there() -> None:
    stage = in_turn(4)
    places = stage.world.pager.residency
    for rank, place in ((2, Place.COMING), (1, Place.LEAVING)):
        stage.world.ledger.open("page", rank)
        places.move(rank, place)
    stage.hear(PagedOut(rank=1, error="the host pool is full", full=True))
    assert (stage.world.broke, places.place(1)) == ("", Place.DEVICE)
    assert stage.hear(came(2)) == [PageOut(rank=1)]
    stage.hear(PagedOut(rank=1, error="the host pool is full", full=True))
    assert stage.world.broke.startswith("the host pool is full"), "nobody comes from there any more"


def test_memory_that_cannot_come_back_ends_the_run() -> None:
    stage = in_turn(2)
    stage.hear(pressed(1), left(0))
    stage.hear(posted(1, 1, all_reduce(), payload=bytes_of(1, 1)))
    stage.hear(PagedIn(rank=0, error="the file is not what was written"))
    assert stage.world.broke == "the file is not what was written"


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_ranks_that_fit_in_turn_all_come_to_their_ends(slots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residency, "SPARE", sharing_device.SPARE)
    moves = 0
    for seed in range(60):
        luck = random.Random(seed)
        wants = [[luck.randrange(1, 5) for _ in range(luck.randrange(1, 5))] for _ in range(6)]
        depth = max(map(len, wants))
        wants = [steps + [0] * (depth - len(steps)) for steps in wants]
        size = slots * (max(map(sum, wants)) + sharing_device.SPARE) + luck.randrange(4)
        device = sharing_device.Device(size, Stage(6, slots=slots), luck)
        device.run(wants)
        moves += ended(device, seed).paged.out.count
    assert moves > 60


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_ranks_that_fit_in_turn_come_to_their_ends_if_host_memory_holds_who_comes_and_one_more(
    slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(residency, "SPARE", sharing_device.SPARE)
    spilled = 0
    for seed in range(120):
        luck = random.Random(seed)
        wants = [[luck.randrange(1, 9) for _ in range(2)] + [0, 0] for _ in range(8)]
        most = max(map(sum, wants))
        device = sharing_device.Device(
            slots * (most + sharing_device.SPARE) + luck.randrange(most),
            Stage(8, slots=slots, memory=HostMemory(pages_spill=True)),
            luck,
            host=(slots + 1) * most + luck.randrange(2 * most),
        )
        device.run(wants)
        spilled += ended(device, seed).spilled.back.count
    assert spilled > 0


@pytest.mark.parametrize("devices", [1, 2, 3])
def test_programs_of_several_groups_come_to_their_ends(devices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residency, "SPARE", sharing_device.SPARE)
    moves = 0
    for seed in range(400):
        device, steps = of_several_groups(seed, devices)
        device.run(steps)
        moves += ended(device, seed).paged.out.count
    assert moves > 400


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("devices", [1, 2])
def test_ranks_that_are_stopped_in_their_slots_come_to_their_ends(
    devices: int, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(residency, "SPARE", sharing_device.SPARE)
    moves = stops = 0
    for seed in range(400):
        device, steps = of_several_groups(seed, devices, more=1)  # who is stopped cannot leave
        device.silence, device.waits = device.luck.choice((0.1, 0.4)), waits
        device.run(steps)
        moves += ended(device, seed).paged.out.count
        stops += device.stops
    assert min(moves, stops) > 100


def of_several_groups(seed: int, devices: int, more: int = 0) -> tuple[Programs, list[list[Step]]]:
    """Ranks whose devices have room for as many as there are slots, and so many more; and what they do."""
    luck = random.Random(seed)
    ranks, slots = luck.randrange(3, 10), luck.choice((1, 1, 2, 3))
    groups, steps = programs(luck, ranks)
    most = max(map(peak, steps))
    stage = Stage(ranks, slots=slots, memory=HostMemory(pages_spill=True))
    room = (slots + more) * (most + sharing_device.SPARE) + luck.randrange(4)
    host = (slots + 1) * most + luck.randrange(2 * most + 1)
    return Programs(room, stage, luck, host=host, devices=devices, groups=groups), steps


def test_a_rank_on_another_device_leaves_once_in_vain() -> None:
    stage = in_turn(4)
    assert stage.hear(pressed(3)) == [PageOut(rank=2)]
    elsewhere = PagedOut(rank=2, nbytes=24 * GIB, free=80 * GIB, device=1)
    assert stage.hear(elsewhere) == [PageOut(rank=1)], "where it was nobody asks"
    assert stage.hear(left(1)) == [Room(rank=3)]
    stage.hear(posted(3, 1, all_reduce(), payload=bytes_of(3, 1)), waited(3, 1))
    assert stage.world.pager.residency.beside(1, 3)
    assert not stage.world.pager.residency.beside(2, 3)
    assert stage.world.pager.residency.beside(0, 2), "of rank 0 nothing is known"


def test_host_memory_that_cannot_hold_who_comes_and_who_leaves_ends_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(residency, "SPARE", sharing_device.SPARE)
    stage = Stage(4, slots=1, memory=HostMemory(pages_spill=True))
    sharing_device.Device(10, stage, random.Random(0), host=11).run([[4, 4, 0]] * 4)
    assert stage.world.broke == (
        "host memory is full; raise devices.host_memory: it holds the copies of ranks that come, as many as there are "
        "devices.slots, and of one that leaves"
    )


def test_what_a_rank_was_told_while_it_left_it_hears_if_it_could_not() -> None:
    stage = in_turn(4, HostMemory(pages_spill=True))
    stage.hear(pressed(3))
    run = Run(rank=2)
    assert not stage.world.pager.passes(run)
    told = stage.hear(PagedOut(rank=2, error="the host pool is full", full=True))
    assert run in told


def test_where_more_run_than_ever_fit_one_runs_out_of_memory_and_nobody_moves_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(residency, "SPARE", 1536)
    monkeypatch.setattr("tests.core.sharing_device.SPARE", 1536)
    for seed in range(6):
        stage = Stage(16, slots=8, memory=HostMemory(pages_spill=True))
        device = sharing_device.Device(1536 + 400, stage, random.Random(seed), host=3600)
        device.run([[344, 768]] * 16)
        without = [process.rank for process in device.processes.values() if process.out_of_memory]
        if without:
            told = {one.kind: one.ranks for one in stage.exchange.warnings.told()}
            assert set(without) <= set(told["not_alone"])
            return
    raise AssertionError("they all fitted")


def test_a_rank_that_is_larger_than_the_device_runs_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residency, "SPARE", sharing_device.SPARE)
    device = sharing_device.Device(10, Stage(3, slots=1), random.Random(1))
    device.run([[2, 2], [2, 9], [2, 2]])
    assert [process.out_of_memory for process in device.processes.values()] == [False, True, False]
