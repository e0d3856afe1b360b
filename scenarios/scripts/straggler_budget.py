"""How slow may one rank be before the job is 5 % slower?  A search over replays; the program runs once.

    python scenarios/scripts/straggler_budget.py scenarios/bottleneck_stage.yaml
    python scenarios/scripts/straggler_budget.py mine.yaml --slowdown 1.02 --ranks 0,7 --out runs/mine

The answer is a factor for each rank: so many times as long may it compute, it alone, until an iteration lasts 5 %
longer (--slowdown 1.05). The budget of a rank on the bottleneck is little more than that; a rank that mostly waits may
be far slower. All ranks are bisected together, a replay with one variant for each. With --out, a second call uses the
capture and calibration that are there.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

from prism import Coordinator, Scenario
from prism.core.graph import Graph
from prism.scenario import Slow, WhatIf

MOST = 64.0
"""A rank that may be slower than this, may be as slow as it likes."""


def slowdowns(run: Coordinator, graph: Graph, factors: dict[int, float]) -> dict[int, float]:
    """The slowdown of the job for each rank, if that rank alone computes so many times as long."""
    variants = [WhatIf(name=f"rank-{rank}", slow=Slow(ranks=(rank,), factor=f)) for rank, f in factors.items()]
    found = run.replay(graph, what_if=variants).what_if
    return {rank: one.slowdown or 0.0 for rank, one in zip(factors, found, strict=True)}


def budgets(run: Coordinator, graph: Graph, ranks: Sequence[int], allowed: float, steps: int) -> dict[int, float]:
    """The largest factor of each rank with which the job is at most `allowed` times slower, after `steps` replays."""
    within, beyond = dict.fromkeys(ranks, 1.0), dict.fromkeys(ranks, MOST)
    for _ in range(steps):
        middles = {rank: (within[rank] * beyond[rank]) ** 0.5 for rank in ranks}
        for rank, slowdown in slowdowns(run, graph, middles).items():
            (within if slowdown <= allowed else beyond)[rank] = middles[rank]
    return within


async def search(scenario: Scenario, ranks: Sequence[int], allowed: float, steps: int, out: Path) -> dict[int, float]:
    async with Coordinator(scenario, out, resume=True) as run:
        graph = await run.calibrate(await run.capture())
        found = budgets(run, graph, ranks, allowed, steps)
        run.replay(graph)  # what is left in the folder answers the scenario's own questions
    return found


def main(arguments: Sequence[str] | None = None) -> dict[int, float]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("scenario", help="a scenario file")
    parser.add_argument("--slowdown", type=float, default=1.05, help="what the job may lose (1.05)")
    parser.add_argument("--ranks", help="such as 0,7 (default: all)")
    parser.add_argument("--steps", type=int, default=14, help="replays; each halves what is uncertain (14)")
    parser.add_argument("--out", type=Path, help="output folder, whose finished stages are used again")
    given = parser.parse_args(arguments)
    scenario = Scenario.load(given.scenario)
    ranks = [int(rank) for rank in given.ranks.split(",")] if given.ranks else list(range(scenario.world.size))
    with tempfile.TemporaryDirectory(prefix="straggler-budget-") as folder:
        out = given.out or Path(folder) / "out"
        found = asyncio.run(search(scenario, ranks, given.slowdown, given.steps, out))
    for rank, factor in found.items():
        told = "as slow as it likes" if factor > 0.9 * MOST else f"{factor:.2f}x as long"
        print(f"rank {rank}: {told} for a job {given.slowdown - 1:.0%} slower")
    return found


if __name__ == "__main__":
    main()
