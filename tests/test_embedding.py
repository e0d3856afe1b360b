"""The embedding API in wrong hands: what is refused says so, and breaks nothing that others do."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from prism.coordinator import Coordinator
from prism.core.graph import Graph
from prism.crew import Crew
from prism.errors import RunError
from prism.folder import Folder
from tests.running import on_the_bench, scenario

GIVEN = scenario(Path(__file__).with_name("programs") / "averages.py", ("2",))


def test_a_stage_outside_of_the_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="a run begins with `async with"):
        asyncio.run(Coordinator(GIVEN, tmp_path / "out").capture())


def test_a_run_whose_workers_do_not_end_in_order_lets_its_folder_go(tmp_path: Path) -> None:
    class Stuck(Crew):
        async def __aexit__(self, *_: object) -> None:
            raise RunError("a worker is stuck")

    async def run() -> None:
        async with Coordinator(GIVEN, tmp_path / "out") as begun:
            begun._crew = Stuck()

    with pytest.raises(RunError, match="a worker is stuck"):
        asyncio.run(run())
    Folder(tmp_path / "out").begin(resume=True)


def test_two_runs_at_one_time_do_not_share_a_crew(tmp_path: Path) -> None:
    async def captured(crew: Crew, name: str) -> Graph:
        async with Coordinator(GIVEN, str(tmp_path / name), crew=crew) as run:
            return await run.capture()

    async def both(crew: Crew) -> list[Graph | BaseException]:
        both = (captured(crew, "first"), captured(crew, "second"))
        return await asyncio.gather(*both, return_exceptions=True)

    first, second = on_the_bench(both)
    assert isinstance(first, Graph)
    assert isinstance(second, RunError)
    assert "the crew works for another stage" in str(second)
