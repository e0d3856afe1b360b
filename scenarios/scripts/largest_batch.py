"""What is the largest batch that fits?  A search over captures, for a program whose batch is an argument.

    python scenarios/scripts/largest_batch.py scenarios/will_it_fit.yaml --memory 80MiB
    python scenarios/scripts/largest_batch.py mine.yaml --flag --micro-batch-size --most 64

Each try captures two iterations (the state of an optimizer is made at the first step, so the second needs more) with
the flag set to another batch, on devices of that memory. The batch is doubled until one does not fit, then bisected.
The last line is the answer; a program that fails in another way ends the search with what it raised.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from prism import Coordinator, Scenario
from prism.crew import Crew
from prism.errors import ProgramError
from prism.scenario import Capture


class Tries:
    """Captures of one scenario with other batches; all of them share a crew, so that torch is imported once."""

    def __init__(self, scenario: Scenario, flag: str, folder: Path, crew: Crew) -> None:
        self.scenario = msgspec.structs.replace(
            scenario, capture=Capture(iterations=2, payloads="none"), stages=("capture",), what_if=()
        )
        self.flag, self.folder, self.crew = flag, folder, crew

    def with_batch(self, batch: int) -> Scenario:
        """The scenario with the value behind the flag replaced, or with both added."""
        args = list(self.scenario.program.args)
        if self.flag not in args:
            args += [self.flag, ""]
        args[args.index(self.flag) + 1] = str(batch)
        return msgspec.structs.replace(
            self.scenario, program=msgspec.structs.replace(self.scenario.program, args=tuple(args))
        )

    async def fits(self, batch: int) -> bool:
        """Whether all ranks get through; raises ProgramError if one fails for another reason than memory."""
        run = Coordinator(self.with_batch(batch), self.folder / str(batch), crew=self.crew)
        try:
            async with run:
                await run.capture()
        except ProgramError:
            if run.result.diagnosis is None or run.result.diagnosis.kind != "oom":
                raise
            print(f"batch {batch:>4}: does not fit", flush=True)
            return False
        peak = max(rank.peak_bytes or 0 for rank in run.result.ranks)
        print(f"batch {batch:>4}: fits, {peak / 2**20:.1f} MiB on the fullest rank", flush=True)
        return True


async def largest(tries: Tries, most: int) -> int:
    """The largest batch up to `most` that fits; 0 if not even 1 does."""
    fitting, failing = 0, most + 1
    batch = 1
    while fitting < most and failing > most:
        if await tries.fits(batch):
            fitting, batch = batch, min(2 * batch, most)
        else:
            failing = batch
    while failing - fitting > 1:
        middle = (fitting + failing) // 2
        if await tries.fits(middle):
            fitting = middle
        else:
            failing = middle
    return fitting


async def search(scenario: Scenario, flag: str, most: int) -> int:
    with tempfile.TemporaryDirectory(prefix="largest-batch-") as folder:
        async with Crew() as crew:
            return await largest(Tries(scenario, flag, Path(folder), crew), most)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("scenario", help="a scenario file")
    parser.add_argument("--memory", help="capacity of a device, such as 80GiB (default: the scenario's)")
    parser.add_argument("--flag", default="--batch", help="the program's argument that sets the batch (--batch)")
    parser.add_argument("--most", type=int, default=1024, help="no batch beyond this is tried (1024)")
    given = parser.parse_args(arguments)
    scenario = Scenario.load(given.scenario, [f"devices.memory={given.memory}"] if given.memory else [])
    if scenario.devices.memory is None:
        parser.error("nothing limits the batch: give --memory, or devices.memory in the scenario")
    found = asyncio.run(search(scenario, given.flag, given.most))
    print(f"the largest batch that fits {scenario.devices.memory / 2**20:,.1f} MiB: {found}")
    return found


if __name__ == "__main__":
    main()
