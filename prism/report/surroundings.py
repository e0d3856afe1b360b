"""What a report needs to know besides the result, the graph and its timeline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from prism.core.graph import Graph, Table
from prism.core.laps import LAP, laps_name
from prism.core.timeline.matrix import Trees
from prism.folder import Folder
from prism.prediction.communication import along_trees
from prism.scenario import Scenario


def _itself(rank: int) -> int:
    return rank


@dataclass(frozen=True)
class Surroundings:
    """Where nothing is known of something, it is left out of the report.

    `capacity` of a rank's device in bytes; `base`: where relative call sites begin; `laps`: the course of a rank's
    memory (LAP), by rank; `home`: the rank that ran for a rank; `trees`: which ops run along trees.
    """

    capacity: int | None = None
    base: Path | None = None
    laps: dict[int, Table] = field(default_factory=dict)
    home: Callable[[int], int] = _itself
    trees: Trees | None = None


def surroundings(folder: Folder, scenario: Scenario, graph: Graph | None) -> Surroundings:
    """What the folder and the scenario say."""
    fold, size = scenario.fold, scenario.world.size
    home = fold.shape.representative if fold is not None else _itself
    ran = fold.shape.representatives if fold is not None else range(size)
    found = ((rank, _laps(folder.logs / laps_name(rank))) for rank in ran)
    trees = None
    if graph is not None and scenario.network.algorithm != "ring":
        trees = Trees(along_trees(graph, scenario), scenario.world.ranks_per_node)
    return Surroundings(
        capacity=scenario.devices.memory,
        base=scenario.script.parent if scenario.script is not None else Path(),
        laps={rank: laps for rank, laps in found if laps is not None},
        home=home,
        trees=trees,
    )


def _laps(path: Path) -> Table | None:
    """The laps of a rank; None where it left none that can be read."""
    try:
        laps = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return laps if laps.dtype == LAP and laps.ndim == 1 else None
