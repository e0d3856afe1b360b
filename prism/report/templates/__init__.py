"""The templates of the report, and the environment that renders them."""

from __future__ import annotations

import base64
import hashlib

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


def script_of(*names: str) -> tuple[str, str]:
    """Parts of templates/page as one script, and its hash for the page's policy: nothing else may run in it."""
    loader = environment.loader
    assert loader is not None
    text = "\n".join(loader.get_source(environment, f"page/{name}.js")[0] for name in names)
    return text, base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def page_script() -> tuple[str, str]:
    """What runs in report.html."""
    return script_of("roll", "view", "paint", "timeline", "tables", "memory", "start")


def live_page() -> str:
    """The page that shows a run while it goes on."""
    script, digest = script_of("live")
    return environment.get_template("live.html.j2").render(script=script, digest=digest)
