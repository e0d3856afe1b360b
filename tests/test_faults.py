"""Misfortunes of a scenario are acted out, and the diagnosis says whose they were."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prism.coordinator import Coordinator
from prism.core.graph import Graph, NodeKind
from prism.scenario import Calibrate, Fault, Moment
from tests.running import Run, capture, scenario

PROGRAM = Path(__file__).with_name("programs") / "trains.py"
SECOND = 10**9


def run(out: Path, **fault: Any) -> Run:
    """Capture the program with rank 1 at fault."""
    return capture(scenario(PROGRAM, world=3, faults=(Fault(rank=1, **fault),), hang_after=SECOND), out)


@pytest.mark.parametrize(
    ("do", "kind", "words"),
    [
        ("exit", "rank_failed", "rank 1 ended with exit code 1"),
        ("raise", "rank_failed", "rank 1 raised RuntimeError: fault injected at the start of iteration 2: raise at "),
        ("oom", "oom", "rank 1 raised torch.OutOfMemoryError: fault injected at the start of iteration 2: oom at "),
        ("hang", "hang", "rank 1 posted nothing and did not end for 1 s"),
    ],
)
def test_the_diagnosis_names_the_rank_and_what_became_of_it(do: str, kind: str, words: str, tmp_path: Path) -> None:
    done = run(tmp_path / "out", at=Moment(iteration=2), do=do)
    found = done.result.diagnosis
    assert found is not None
    assert (found.kind, found.ranks[0].rank) == (kind, 1)
    assert found.summary.startswith(words)
    assert "ranks 0, 2 wait in all_reduce, operation 3 of group default" in found.summary
    assert f"fault injected at the start of iteration 2: {do}\n" in done.output[1]
    assert [rank.iterations for rank in done.result.ranks] == [2, 2, 2]


def test_an_exception_comes_from_the_line_that_ends_the_iteration_before(tmp_path: Path) -> None:
    found = run(tmp_path / "out", at=Moment(iteration=1), do="raise").result.diagnosis
    line = next(n for n, text in enumerate(PROGRAM.read_text().splitlines(), 1) if "# site B" in text)
    assert found is not None
    assert found.ranks[0].callsite == f"trains.py:{line}"


def test_iteration_0_begins_with_the_program(tmp_path: Path) -> None:
    done = run(tmp_path / "out", at=Moment(iteration=0), do="raise")
    found = done.result.diagnosis
    assert found is not None
    assert found.summary.startswith("rank 1 raised RuntimeError: fault injected at the start of iteration 0: raise")
    assert done.result.ranks[1].iterations == 0


def test_a_fault_after_the_end_of_the_program_does_nothing(tmp_path: Path) -> None:
    assert run(tmp_path / "out", at=Moment(iteration=4), do="raise").result.status == "ok"


def test_a_slow_rank_computes_longer(tmp_path: Path) -> None:
    given = scenario(
        PROGRAM,
        world=2,
        faults=(Fault(rank=1, at=Moment(iteration=0), do="slow", factor=2),),
        calibrate=Calibrate(warmup=0, share="none"),
    )
    graph = asyncio.run(calibrated(given, tmp_path / "out"))
    healthy, slow = (float(np.median(before_posts(graph, rank))) for rank in (0, 1))
    assert 1.5 < slow / healthy < 3


async def calibrated(given: Any, out: Path) -> Graph:
    """The graph with durations."""
    async with Coordinator(given, out) as run:
        return await run.calibrate(await run.capture())


def before_posts(graph: Graph, rank: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """How long the rank computed before each post, in ns."""
    posts = np.flatnonzero((graph.nodes["kind"] == NodeKind.POST) & (graph.node_rank() == rank))
    durations: np.ndarray[Any, np.dtype[np.int64]] = graph.nodes["duration"][posts - 1]
    return durations
