"""Folding in the stages: who runs, what ranks are told about it, and what is said of those that do not run."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from prism.core.folding.roles import FoldedCapture
from prism.core.folding.seats import NotFoldable
from prism.core.folding.shape import Folding
from prism.core.folding.verification import choose
from prism.core.graph import Graph
from prism.core.stage.capture import Capture
from prism.core.stage.world import World
from prism.net.messages import Setup
from prism.result import FoldResult, RankResult
from prism.scenario import Scenario
from prism.scenario.flaw import Flaw
from prism.stages.staging import kept


def folding_of(scenario: Scenario) -> Folding | None:
    """The shape of a folded world; None where all ranks run."""
    return scenario.fold.shape if scenario.fold is not None else None


def running(scenario: Scenario) -> Sequence[int]:
    """The ranks that run, ascending."""
    folding = folding_of(scenario)
    return range(scenario.world.size) if folding is None else folding.representatives


def verified(scenario: Scenario) -> tuple[int, ...]:
    """The folded ranks that run all the same, ascending."""
    fold = scenario.fold
    return choose(fold.shape, fold.verify, fold.seed) if fold is not None else ()


def capture_of(scenario: Scenario) -> Capture:
    """The exchange of a capture."""
    folding = folding_of(scenario)
    if folding is None:
        return Capture(range(scenario.world.size), kept(scenario))
    return FoldedCapture(folding, kept(scenario))


def capture_setup(scenario: Scenario, setup: Setup) -> Setup:
    """The setup of a capture, with what the ranks of a folded one have to tell."""
    folding = folding_of(scenario)
    if folding is None:
        return setup
    chosen = verified(scenario)
    compared = (*chosen, *map(folding.representative, chosen))
    return msgspec.structs.replace(setup, names_groups=folding.representatives[0], compared=compared)


def rank_results(scenario: Scenario, world: World) -> list[RankResult]:
    """What a capture saw of all ranks; of one that did not run what it saw of the one that stands for it."""
    own = {rank.rank: RankResult.of(rank) for rank in world.ranks.values()}
    folding = folding_of(scenario)
    if folding is None:
        return list(own.values())
    homes = ((rank, folding.representative(rank)) for rank in range(folding.world_size))
    return [own[home] if home == rank else msgspec.structs.replace(own[home], rank=rank) for rank, home in homes]


def fold_result(scenario: Scenario) -> FoldResult | None:
    """Who runs, and who is verified."""
    fold, chosen = scenario.fold, list(verified(scenario))
    if fold is None:
        return None
    ran = list(running(scenario))
    if not chosen:
        return FoldResult(ran=ran)
    return FoldResult(ran=ran, verified=chosen, compare=fold.compare, seed=fold.seed)


def refuse_unfoldable(scenario: Scenario, exchange: Capture) -> None:
    """Raise ScenarioError if the program uses a group that does not fit the dimensions that are folded."""
    if isinstance(exchange, FoldedCapture) and exchange.unfoldable:
        raise Flaw(("fold",), exchange.unfoldable, scenario.path or "scenario")


def graph_of(scenario: Scenario, exchange: Capture) -> Graph:
    """The bare graph of all ranks; raises ScenarioError if it would be too large."""
    try:
        return exchange.graph()
    except NotFoldable as error:
        raise Flaw(("fold",), str(error), scenario.path or "scenario") from None
