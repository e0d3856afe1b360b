"""Writing the views that a scenario asks for beside its result."""

from __future__ import annotations

from prism.core.graph import Graph, Timeline
from prism.folder import Folder
from prism.report.html import render_html
from prism.report.perfetto import write_perfetto
from prism.result import Result
from prism.scenario import Scenario


def write_views(folder: Folder, result: Result, seen: tuple[Graph, Timeline] | None, scenario: Scenario) -> None:
    """Write what is asked for; without a graph and its timeline, report.html tells of the failure."""
    graph, timeline = seen or (None, None)
    if "html" in scenario.output.formats:
        folder.report.write_text(render_html(result, graph, timeline, scenario.path or scenario.name), encoding="utf-8")
    if "perfetto" in scenario.output.formats and graph is not None and timeline is not None:
        write_perfetto(folder.timeline, graph, timeline)
