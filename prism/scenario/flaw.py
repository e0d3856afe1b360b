"""One thing that is wrong with a scenario, told by its path."""

from __future__ import annotations

import json
import re

from prism.errors import ScenarioError

Path = tuple[str | int, ...]
"""Keys and list indices from the top of a scenario down to one value."""

_BARE_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class Flaw(ScenarioError):
    """A ScenarioError that knows its path; its place is `file:line`, `--set key` or, if built in code, `scenario`."""

    def __init__(self, path: Path, what: str, place: str = "scenario") -> None:
        super().__init__(f"{place}: {dotted(path)}: {what}")
        self.path = path
        self.what = what

    def at(self, place: str) -> Flaw:
        """The same flaw, reported at another place."""
        return Flaw(self.path, self.what, place)


def dotted(path: Path) -> str:
    """The path as users read it: `$.what_if[0].name`, with keys in quotes where they are not plain words."""
    return "$" + "".join(_step(step) for step in path)


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _BARE_KEY.fullmatch(step) else f"[{json.dumps(step)}]"
