"""Which ranks may have a process, and which have to spill, where the host's memory is bounded."""

from __future__ import annotations

import random

import pytest

from prism.core.events import Exited, Finished, Folded
from prism.core.instructions import Deliver, Launch, Leave, Run, Spill
from prism.core.stage.admission import SAMPLES, Admission, HostMemory
from tests.core.actors import RESULT, all_reduce, barrier, blocked, bytes_of, joined, posted, waited
from tests.core.bounded_stage import REST, WHOLE, BoundedSimulation, BoundedStage
from tests.core.random_programs import random_programs

SPILLS = HostMemory(bound=1000, spills=True)


def waiting(stage: BoundedStage, rank: int) -> list[object]:
    """A rank begins, takes part in the first barrier, tells what it holds, and waits."""
    stage.up(rank)
    stage.weighed(rank)
    return list(stage.hear(posted(rank, 1, barrier()), waited(rank, 1)))


def test_ranks_are_admitted_while_one_more_fits() -> None:
    stage = BoundedStage(4, slots=1, bound=3 * WHOLE, spills=False)
    assert waiting(stage, 0) == [Launch(rank=1)]
    assert waiting(stage, 1) == [Launch(rank=2)]
    assert waiting(stage, 2) == []
    assert stage.states() == ["blocked"] * 3 + ["new"]


def test_the_first_rank_is_admitted_whatever_it_takes() -> None:
    assert Admission(2, 1, HostMemory(bound=1)).admits()


def test_a_rank_that_ends_makes_room() -> None:
    stage = BoundedStage(3, slots=1, bound=2 * WHOLE, spills=False)
    waiting(stage, 0)
    waiting(stage, 1)
    assert Launch(rank=2) in stage.hear(Exited(rank=1, code=0))


def test_ranks_that_can_go_on_do_so_while_new_ones_are_held_back() -> None:
    stage = BoundedStage(3, slots=1, bound=2 * WHOLE, spills=False)
    stage.up(0)
    blocked(stage, 0, 1, group="default")
    stage.weighed(0)
    stage.hear(posted(0, 2, barrier()))
    assert stage.world.slots.held_back == []


def test_where_nobody_can_go_on_before_a_rank_that_does_not_fit_the_run_is_refused() -> None:
    stage = BoundedStage(4, slots=2, bound=2 * WHOLE, spills=False)
    waiting(stage, 0)
    waiting(stage, 1)
    stage.wait_for_ever()
    assert stage.world.over
    assert "none can go on before the others have begun" in stage.world.refused
    assert "set devices.spill" in stage.world.refused


def test_it_is_not_refused_while_somebody_computes() -> None:
    stage = BoundedStage(4, slots=2, bound=2 * WHOLE, spills=False)
    waiting(stage, 0)
    stage.up(1)
    stage.wait_for_ever()
    assert not stage.world.over


def test_it_is_not_refused_while_a_rank_whose_program_is_over_does_a_sum() -> None:
    stage = BoundedStage(3, slots=2, bound=2 * WHOLE, spills=False)
    stage.up(0)
    stage.up(1)
    stage.hear(*(joined(rank, (0, 1), "pair") for rank in (0, 1)))
    stage.weighed(0)
    stage.hear(posted(0, 1, all_reduce(), "pair", bytes_of(0, 1)), waited(0, 1))
    stage.weighed(1)
    stage.hear(posted(1, 1, all_reduce(), "pair", bytes_of(1, 1)), Finished(rank=1, code=0))
    assert stage.states() == ["blocked", "finishing", "new"]
    stage.wait_for_ever()
    assert not stage.world.over
    assert Run(rank=0) in stage.hear(Folded(rank=1, op=0, results=(RESULT,)))


def test_a_rank_that_waits_spills_where_room_for_those_that_compute_is_short() -> None:
    stage = BoundedStage(4, slots=1, bound=2 * WHOLE + REST)
    assert waiting(stage, 0) == [Launch(rank=1)]
    assert waiting(stage, 1) == [Spill(rank=1)]
    assert stage.spilled(1) == [Launch(rank=2)]


def test_a_rank_that_spills_is_asked_once() -> None:
    stage = BoundedStage(4, slots=2, bound=2 * WHOLE)
    waiting(stage, 0)
    assert Spill(rank=1) in waiting(stage, 1)
    assert stage.pass_time(1) == []


def test_the_latest_that_has_not_spilled_makes_room_for_a_new_one() -> None:
    stage = BoundedStage(5, slots=1, bound=3 * WHOLE + REST)
    waiting(stage, 0)
    waiting(stage, 1)
    assert waiting(stage, 2) == [Spill(rank=2)]
    assert stage.spilled(2, nbytes=WHOLE) == [Spill(rank=1)], "it could not; another one has to"
    assert stage.spilled(1) == [Launch(rank=3)]


def test_a_rank_that_goes_on_holds_all_its_memory_again() -> None:
    stage = BoundedStage(2, slots=1, bound=int(1.5 * WHOLE))
    waiting(stage, 0)
    stage.spilled(0)
    waiting(stage, 1)
    assert stage.states() == ["ready", "running"]
    stage.hear(Finished(rank=1, code=0))
    assert stage.states() == ["running", "finishing"]
    assert stage.world.admission.held >= WHOLE


def test_a_rank_that_has_spilled_gets_its_result_with_its_slot() -> None:
    stage = BoundedStage(2, slots=1, bound=int(1.5 * WHOLE))
    waiting(stage, 0)
    stage.spilled(0)
    stage.up(1)
    told = stage.hear(posted(1, 1, barrier()))
    assert told == [Deliver(rank=1, handle=1)]
    assert stage.hear(Finished(rank=1, code=0)) == [Leave(rank=1), Deliver(rank=0, handle=1), Run(rank=0)]


def test_what_cannot_fit_although_all_spill_is_refused_as_soon_as_enough_have() -> None:
    stage = BoundedStage(100, slots=1, bound=5 * WHOLE)
    for rank in range(100):
        if stage.world.over:
            break
        waiting(stage, rank)
        stage.spilled(rank)
    assert stage.world.refused.startswith("devices.host_memory")
    assert sum(state != "new" for state in stage.states()) <= SAMPLES + 5


def test_a_full_disk_ends_the_run_with_what_the_rank_says() -> None:
    stage = BoundedStage(4, slots=1, bound=2 * WHOLE)
    waiting(stage, 0)
    waiting(stage, 1)
    stage.spilled(1, nbytes=WHOLE, error="devices.spill: /disk: no space")
    assert stage.world.refused == "devices.spill: /disk: no space"


def test_nothing_is_asked_of_anybody_without_a_bound() -> None:
    stage = BoundedStage(3, slots=1, bound=0)
    assert waiting(stage, 0) == [Launch(rank=1)]
    assert waiting(stage, 1) == [Launch(rank=2)]
    assert not [told for told in waiting(stage, 2) if isinstance(told, Spill)]


def test_the_forecast_is_the_mean_of_those_that_have_told_times_all() -> None:
    admission = Admission(1024, 2, SPILLS)
    for rank in range(SAMPLES - 1):
        admission.weighed(rank, 10 + rank % 2)
    assert admission.forecast == 0, "too few to tell"
    admission.weighed(SAMPLES - 1, 11)
    assert admission.forecast == round(10.5 * 1024)


def test_what_all_share_counts_once() -> None:
    admission = Admission(10, 1, SPILLS)
    for rank in range(SAMPLES):
        admission.weighed(rank, 10, shared=200 - rank)
    assert (admission.held, admission.forecast) == (280, 300)


def test_the_forecast_counts_the_most_that_a_rank_has_held() -> None:
    admission = Admission(2, 1, SPILLS)
    for rank in range(2):
        admission.weighed(rank, 50)
        admission.spilled(rank, 5)
        admission.enter(rank)
        admission.weighed(rank, 20)
    assert (admission.forecast, admission.held) == (100, 40)


# -- several hosts ---------------------------------------------------------------------------------------------------


def test_each_host_admits_ranks_by_its_own_memory() -> None:
    stage = BoundedStage(6, slots=1, bound=2 * WHOLE, spills=False, hosts=(0, 0, 0, 1, 1, 1))
    assert stage.states() == ["launching", "new", "new", "launching", "new", "new"]
    assert waiting(stage, 0) == [Launch(rank=1)]
    assert waiting(stage, 1) == []
    assert waiting(stage, 3) == [Launch(rank=4)], "its host has room"
    assert waiting(stage, 4) == []
    assert stage.states() == ["blocked", "blocked", "new"] * 2


def test_who_spills_is_on_the_host_that_is_short() -> None:
    stage = BoundedStage(5, slots=1, bound=2 * WHOLE + REST, hosts=(0, 0, 0, 1, 1))
    waiting(stage, 3)
    assert waiting(stage, 0) == [Launch(rank=1)]
    assert waiting(stage, 1) == [Spill(rank=1)]
    assert waiting(stage, 4) == [Spill(rank=4)], "both hosts at one time"
    assert stage.spilled(1) == [Launch(rank=2)]


def test_it_is_not_refused_while_another_host_computes() -> None:
    stage = BoundedStage(4, slots=1, bound=WHOLE, spills=False, hosts=(0, 0, 1, 1))
    waiting(stage, 0)
    stage.up(2)
    stage.wait_for_ever()
    assert not stage.world.over
    stage.weighed(2)
    stage.hear(posted(2, 1, barrier()), waited(2, 1))
    stage.wait_for_ever()
    told = "devices.host_memory: 0.0 MiB are taken by 1 of 2 ranks of one worker, and none can go on"
    assert stage.world.refused.startswith(told)


@pytest.mark.parametrize("seed", range(40))
def test_on_several_hosts_programs_that_can_run_end_well_if_ranks_spill(seed: int) -> None:
    chance = random.Random(seed)
    size, slots = 2 + seed % 6, chance.randint(1, 3)
    hosts = {rank: chance.randrange(3) for rank in range(size)}
    bound = size * REST + slots * WHOLE
    memory = HostMemory(bound=bound, spills=True)
    simulation = BoundedSimulation(random_programs(seed, size), slots, seed, memory, hosts)
    simulation.run()
    assert not simulation.world.refused
    assert simulation.world.diagnosis is None
    assert simulation.world.ended == size


@pytest.mark.parametrize("seed", range(60))
def test_programs_that_can_run_end_well_within_any_bound_if_ranks_spill(seed: int) -> None:
    size = 2 + seed % 6
    slots = random.Random(seed).randint(1, size)
    bound = size * REST + slots * WHOLE
    simulation = BoundedSimulation(random_programs(seed, size), slots, seed, HostMemory(bound=bound, spills=True))
    simulation.run()
    assert not simulation.world.refused
    assert simulation.world.diagnosis is None
    assert simulation.world.ended == size


@pytest.mark.parametrize("seed", range(30))
def test_without_spilling_a_program_ends_well_or_is_refused(seed: int) -> None:
    size = 3 + seed % 5
    simulation = BoundedSimulation(random_programs(seed, size), 2, seed, HostMemory(bound=2 * WHOLE))
    simulation.run()
    assert simulation.world.diagnosis is None
    assert bool(simulation.world.refused) != (simulation.world.ended == size)
    assert not simulation.world.alive
