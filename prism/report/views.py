"""Writing the views that a scenario asks for beside its result."""

from __future__ import annotations

from pathlib import Path

from prism.atomic import write_whole
from prism.core.graph import Graph, Timeline
from prism.folder import Folder
from prism.report.chakra import write_chakra
from prism.report.html import render_html
from prism.report.kineto import write_kineto
from prism.report.perfetto import write_perfetto
from prism.report.surroundings import surroundings
from prism.result import Result
from prism.scenario import Scenario


def write_views(folder: Folder, result: Result, seen: tuple[Graph, Timeline] | None, scenario: Scenario) -> None:
    """Write what is asked for; without a graph and its timeline, report.html tells of the failure."""
    formats = scenario.output.formats
    if "html" in formats:
        graph, timeline = seen or (None, None)
        source = _named(scenario)
        around = surroundings(folder, scenario, graph)
        page = render_html(result, graph, timeline, source, scenario.world.ranks_per_node, around)
        write_whole(folder.report, [page.encode()])
    if seen is None:
        return
    if "perfetto" in formats:
        write_perfetto(folder.timeline, *seen)
    if "kineto" in formats:
        write_kineto(folder.kineto, *seen)
    if "chakra" in formats:
        write_chakra(folder.chakra, *seen)


def _named(scenario: Scenario) -> str:
    """Where the scenario lies, seen from here; what lies elsewhere is nobody's business who gets the report."""
    if scenario.path is None:
        return scenario.name
    path = Path(scenario.path).resolve()
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else path.name
