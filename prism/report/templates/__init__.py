"""The templates of the report, and the environment that renders them."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

from prism.report import units

environment = Environment(
    loader=PackageLoader("prism.report"),
    autoescape=True,  # names, call sites and tracebacks come from the program: none is trusted
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
environment.filters.update(time=units.time, size=units.size, percent=units.percent, ranks=units.rank_ranges)
