"""Random programs in random orders on random numbers of slots: what holds for all of them."""

from __future__ import annotations

import random

import pytest

from prism.core.calls import Ref
from prism.core.events import Delivered, Exited
from prism.core.instructions import Deliver, Leave, Release
from prism.core.stage.kept import EVERYTHING, Kept
from tests.core.processes import Post, Program
from tests.core.random_programs import random_programs, skip_one_post
from tests.core.simulation import Simulation

SEEDS = range(100)


def act_out(seed: int, programs: list[Program], deadly: bool = False, kept: Kept = EVERYTHING) -> Simulation:
    simulation = Simulation(programs, random.Random(seed).randint(1, len(programs)), seed, deadly, kept)
    simulation.run()
    return simulation


def assert_all_went_well(simulation: Simulation) -> None:
    assert simulation.world.diagnosis is None
    assert simulation.world.ended == len(simulation.processes)
    for process in simulation.processes:
        posted = [step.handle for step in process.program if isinstance(step, Post)]
        told = [i.handle for i in simulation.told if isinstance(i, Deliver) and i.rank == process.rank]
        assert process.at == len(process.program)
        assert sorted(told) == posted
    assert all(op.done for op in simulation.exchange.matcher.ops)


@pytest.mark.parametrize("seed", SEEDS)
def test_programs_that_can_run_end_well(seed: int) -> None:
    assert_all_went_well(act_out(seed, random_programs(seed, size=2 + seed % 5)))


@pytest.mark.parametrize("seed", SEEDS)
def test_programs_that_poll_end_well(seed: int) -> None:
    assert_all_went_well(act_out(seed, random_programs(seed, size=2 + seed % 5, polls=True)))


@pytest.mark.parametrize("seed", SEEDS)
def test_programs_that_wait_unseen_end_well(seed: int) -> None:
    assert_all_went_well(act_out(seed, random_programs(seed, size=2 + seed % 5, unseen=True)))


@pytest.mark.parametrize("seed", SEEDS)
def test_programs_in_which_one_call_is_skipped_get_a_diagnosis(seed: int) -> None:
    programs = random_programs(seed, size=2 + seed % 5)
    if not any(isinstance(step, Post) for program in programs for step in program):
        return
    simulation = act_out(seed, skip_one_post(programs, seed))
    assert simulation.world.diagnosis is not None
    assert simulation.world.diagnosis.kind in ("deadlock", "mismatch")
    assert not simulation.world.alive


@pytest.mark.parametrize("seed", SEEDS)
def test_ranks_that_are_killed_end_the_run(seed: int) -> None:
    simulation = act_out(seed, random_programs(seed, size=2 + seed % 5, polls=True), deadly=True)
    killed = [rank.rank for rank in simulation.world.ranks.values() if rank.code]
    assert not simulation.world.alive
    assert (simulation.world.diagnosis is not None) == bool(killed)


@pytest.mark.parametrize("seed", SEEDS)
def test_results_that_are_not_kept_are_released_once_all_have_read_them(seed: int) -> None:
    simulation = act_out(seed, random_programs(seed, size=2 + seed % 5), kept=Kept(payloads="none"))
    assert_all_went_well(simulation)
    heard = list(enumerate(simulation.events, start=1))
    ended = {event.rank: number for number, event in heard if isinstance(event, Exited)}
    read = {(event.rank, event.handle): number for number, event in heard if isinstance(event, Delivered)}
    last_read: dict[object, int] = {}
    for told in simulation.told:
        if isinstance(told, Deliver) and told.result is not None:
            done, op = read.get((told.rank, told.handle), ended[told.rank]), _made_by(told.result)
            last_read[op] = max(last_read.get(op, 0), done)
    released = [told for told in simulation.told if isinstance(told, Release)]
    assert len({told.payload for told in released}) == len(released)
    for told in released:
        assert last_read.get(_made_by(told.payload), 0) <= told.cause < ended[told.rank]
    kept = last_read.keys() - {_made_by(told.payload) for told in released}
    first = min(told.cause for told in simulation.told if isinstance(told, Leave))
    assert all(last_read[op] >= first for op in kept), "only who is told nothing more is not told of them"


def _made_by(result: Ref) -> tuple[str, int]:
    """The operation, or the message, whose results are lent together; see the processes' numbering."""
    return result.file, result.offset // 4096
