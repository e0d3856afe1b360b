"""Unfolding: what the representatives did is, byte for byte, the graph of a capture of all ranks."""

from __future__ import annotations

import pytest

from prism.core.prismtrace import Trace, encode
from tests.core.folded_stage import FoldedSimulation, Symmetric, folding
from tests.core.simulation import Simulation

FOLDINGS = [
    folding({"pp": 2, "dp": 3, "tp": 2}, "dp"),
    folding({"dp": 4, "tp": 2}, "dp"),
    folding({"tp": 2, "dp": 4}, "dp"),
    folding({"pp": 2, "dp": 2, "ep": 3}, "dp", "ep"),
    folding({"replicate": 3, "pp": 2, "shard": 2}, "shard", "replicate"),
    folding({"dp": 6}, "dp"),
]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("folded", FOLDINGS, ids=lambda f: "x".join(f.mesh) + "-over-" + "-".join(f.over))
def test_it_is_the_capture_of_all_ranks(folded: object, seed: int) -> None:
    programs = Symmetric(folded, seed).act(12)
    whole, few = Simulation(programs, 4, seed), FoldedSimulation(folded, programs, seed)
    for run in (whole, few):
        run.run()
        assert run.world.diagnosis is None, run.world.diagnosis
        assert run.world.over
    assert set(few.world.ranks) == set(folded.representatives)
    one, other = few.exchange.graph(), whole.exchange.graph()
    assert one.groups == other.groups
    assert b"".join(encode(Trace(one))) == b"".join(encode(Trace(other)))
