"""The command, which sends itself a signal once it has heard so many events: `SIGNAL EVENTS ARGUMENTS...`."""

from __future__ import annotations

import os
import sys
from typing import Any

from prism.command import main
from prism.crew import Crew


def run(signal: int, at: int, arguments: list[str]) -> int:
    """Run the command."""
    hear, heard = Crew.events, 0

    async def events(crew: Crew) -> Any:
        nonlocal heard
        found = await hear(crew)
        before, heard = heard, heard + len(found)
        if before < at <= heard:
            os.kill(os.getpid(), signal)
        return found

    Crew.events = events  # type: ignore[method-assign]
    return main(arguments)


if __name__ == "__main__":
    sys.exit(run(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
