"""The capture of a scenario, and no other of its stages, with all that these will need of it.

    python captured.py SCENARIO OUT

With `--stages capture` the record would keep nothing for an emulation.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from prism.coordinator import Coordinator
from prism.scenario import Scenario


async def main(scenario: Path, out: Path) -> None:
    """The command."""
    async with Coordinator(Scenario.load(scenario), out) as run:
        await run.capture()


if __name__ == "__main__":
    asyncio.run(main(*map(Path, sys.argv[1:])))
