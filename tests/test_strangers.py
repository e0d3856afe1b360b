"""Strangers at the door of a coordinator that is at work: the run is what it would be without them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from pathlib import Path

import pytest

from prism.coordinator import Coordinator
from prism.core.graph import Graph
from prism.crew import Crew
from prism.net.dealer import connect
from prism.net.keys import FILE_NAME, WorkerKeys
from prism.net.transport import ConnectionRefused
from prism.scenario import Calibrate, Emulate
from tests.net.intruding import (
    Place,
    slowly,
    with_a_huge_message,
    with_another_coordinator_key,
    with_another_worker_key,
    with_garbage,
    without_curve,
)
from tests.running import capture, on_the_bench, scenario

PROGRAMS = Path(__file__).with_name("programs")
ATTACKS = (without_curve, with_another_worker_key, with_another_coordinator_key, with_garbage, with_a_huge_message)


def test_strangers_change_nothing_and_are_logged_once_a_source(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given = scenario(PROGRAMS / "averages.py", ("12",), 4)
    undisturbed = capture(given, tmp_path / "undisturbed").graph

    async def attacked(crew: Crew) -> Graph:
        assert crew._hub is not None
        place = Place(crew._hub.address, WorkerKeys.load(crew.scratch / FILE_NAME))
        slow, *attacks = (asyncio.ensure_future(attack(place)) for attack in (slowly, *ATTACKS, *ATTACKS))
        with pytest.raises(ConnectionRefused, match="the identity 'worker-0' is taken by a live connection"):
            await connect(place.address, "worker-0", place.keys)
        async with Coordinator(given, tmp_path / "attacked", crew=crew) as run:
            graph = await run.capture()
        await asyncio.gather(*attacks)
        slow.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await slow
        return graph

    graph = on_the_bench(attacked)
    assert undisturbed is not None
    assert (graph.ops == undisturbed.ops).all()
    assert (graph.nodes["kind"] == undisturbed.nodes["kind"]).all()
    told = sorted(message.partition(" (further")[0] for message in caplog.messages)
    assert len(told) == 3, told
    assert told[0] == "127.0.0.1: refused a peer whose key is not of this run"
    assert "unauthenticated peers at tcp://127.0.0.1:" in told[1]
    assert told[2].startswith("worker-0: refused a connection: ")


def test_what_a_run_leaves_and_uses_is_private(tmp_path: Path) -> None:
    """While ranks run: keys, sockets and shared memory; and the payloads in the output folder."""
    emulation = {"calibrate": Calibrate(warmup=1), "emulate": Emulate(sandbox=(1, 2)), "stages": ("capture", "emulate")}
    given, seen = scenario(PROGRAMS / "averages.py", ("6",), 4, **emulation), dict[Path, int]()

    async def stages(crew: Crew) -> None:
        async with Coordinator(given, tmp_path / "out", crew=crew) as run:
            await run.emulate(await run.calibrate(await run.capture()))

    async def watched(crew: Crew) -> None:
        running = asyncio.ensure_future(stages(crew))
        while not running.done():
            seen.update(modes(crew.scratch))
            await asyncio.sleep(0.01)
        await running
        seen.update(modes(tmp_path / "out" / "payloads"))

    on_the_bench(watched)
    kinds = {stat.S_IFMT(mode) for mode in seen.values()}
    assert kinds >= {stat.S_IFDIR, stat.S_IFREG, stat.S_IFSOCK}
    assert {path: oct(mode) for path, mode in seen.items() if mode & 0o077 and not stat.S_ISLNK(mode)} == {}


def modes(folder: Path) -> dict[Path, int]:
    """The modes of a folder and of all below it, where folders and files come and go."""
    found = {}
    for parent, folders, files in os.walk(folder):  # passes over what has gone
        for path in (Path(parent), *(Path(parent, name) for name in (*folders, *files))):
            with contextlib.suppress(FileNotFoundError):
                found[path] = path.lstat().st_mode
    return found
