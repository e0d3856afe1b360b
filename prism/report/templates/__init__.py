"""The templates of the report, and the environment that renders them."""

from __future__ import annotations

import base64
import hashlib

from jinja2 import Environment, PackageLoader, StrictUndefined

from prism.report import units

_SCRIPTS = ("roll", "view", "paint", "timeline", "tables", "start")

environment = Environment(
    loader=PackageLoader("prism.report"),
    autoescape=True,  # names, call sites and tracebacks come from the program: none is trusted
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
environment.filters.update(time=units.time, size=units.size, percent=units.percent, ranks=units.rank_ranges)


def page_script() -> tuple[str, str]:
    """The script of the page, and its hash for the page's policy: nothing else may run in it."""
    loader = environment.loader
    assert loader is not None
    text = "\n".join(loader.get_source(environment, f"page/{name}.js")[0] for name in _SCRIPTS)
    return text, base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
