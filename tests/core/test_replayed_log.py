"""A recorded list of events gives the same instructions and the same verdict, byte for byte, in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from prism.core.events import AnyEvent
from prism.core.stage.capture import Capture
from prism.core.stage.world import World
from tests.core.actors import SECOND
from tests.core.random_programs import random_programs, skip_one_post
from tests.core.simulation import Simulation

SIZE, SLOTS = 6, 3


def replay(log: bytes) -> bytes:
    """What a new world says to the events of a log, and how it judges them."""
    world = World(range(SIZE), SLOTS, Capture(range(SIZE)), hang_after=3600 * SECOND)
    told = [world.start(), *(world.handle(event) for event in msgspec.msgpack.decode(log, type=list[AnyEvent]))]
    return msgspec.msgpack.encode([told, world.diagnosis])


def replay_elsewhere(log: Path, hash_seed: int) -> bytes:
    """The same in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", __name__, str(log)],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        check=True,
    ).stdout


@pytest.mark.parametrize("skips", [False, True], ids=["ends well", "is given up"])
def test_a_replayed_log_gives_the_same_bytes(tmp_path: Path, skips: bool) -> None:
    programs = random_programs(11, SIZE)
    simulation = Simulation(skip_one_post(programs, 11) if skips else programs, SLOTS, seed=11)
    simulation.run()
    assert (simulation.world.diagnosis is not None) == skips
    log = tmp_path / "events"
    log.write_bytes(msgspec.msgpack.encode(simulation.events))
    replayed = replay(log.read_bytes())
    told, _ = msgspec.msgpack.decode(replayed)
    assert sum(map(len, told)) == len(simulation.told)
    assert replay_elsewhere(log, hash_seed=1) == replayed
    assert replay_elsewhere(log, hash_seed=2) == replayed


if __name__ == "__main__":
    sys.stdout.buffer.write(replay(Path(sys.argv[1]).read_bytes()))
