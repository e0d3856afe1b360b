"""Which launchers can start workers, and what several workers cannot do yet."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prism.scenario.flaw import Flaw

if TYPE_CHECKING:
    from prism.scenario.schema import Scenario

_ADDRESS = re.compile(r"tcp://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+|\*):(\d+|\*)")


def refuse_launcher(scenario: Scenario) -> None:
    """Raise Flaw for a launcher that cannot start, or whose workers cannot do what is asked."""
    launcher = scenario.launcher
    if launcher.listen is not None and not _ADDRESS.fullmatch(launcher.listen):
        raise Flaw(("launcher", "listen"), f"expected tcp://host:port, got {launcher.listen}")
    if launcher.kind == "external" and launcher.listen is None:
        raise Flaw(("launcher", "listen"), "expected tcp://host:port, where the workers reach the coordinator")
    for key, kinds in (("listen", ("external", "ray")), ("token_file", ("external",))):
        if launcher.kind not in kinds and getattr(launcher, key) is not None:
            raise Flaw(("launcher", key), f"the launcher {launcher.kind} starts its workers itself, leave it null")
    if launcher.workers > scenario.world.size:
        what = f"{launcher.workers} is more than world.size, expected at most {scenario.world.size}"
        raise Flaw(("launcher", "workers"), what)
    if launcher.workers > 1 and scenario.devices.kind == "cuda":
        raise Flaw(("launcher", "workers"), "devices.kind cuda is not available yet for several workers, choose 1")
