"""The command, which sends itself a signal: `SIGNAL EVENTS SECONDS ARGUMENTS...`, so long after so many events."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from prism.command.main import main
from prism.crew import Crew
from prism.net.launchers.local import LocalLauncher
from tests.kills import START_MOST_S


def run(signal: int, at: int, pause: float, arguments: list[str]) -> int:
    """Run the command; with no events the time counts from here."""
    hear, heard = Crew.events, 0

    def send() -> None:
        timer = threading.Timer(pause, os.kill, (os.getpid(), signal))
        timer.daemon = True
        timer.start()

    async def events(crew: Crew) -> Any:
        nonlocal heard
        found = await hear(crew)
        before, heard = heard, heard + len(found)
        if before < at <= heard:
            send()
        return found

    LocalLauncher.wait_s = START_MOST_S
    if at == 0:
        send()
    Crew.events = events  # type: ignore[method-assign]
    return main(arguments)


if __name__ == "__main__":
    sys.exit(run(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]))
