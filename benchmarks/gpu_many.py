"""Many ranks of a small job on one GPU at a time: seconds and memory of one, how they grow, and some checkpointed.

    python -m benchmarks.gpu_many [--worlds 32,128] [--steps 6] [--checkpointed 8] [--limit 150] [--keep FOLDER]

In the largest world rank 0 pauses after its second step, and all others come to rest: they wait for it. Meanwhile the
driver's checkpoint takes some of them off the device, all at one time, and brings them back. Ranks do the same work, so
the losses of all have to be the same, of those too.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.checkpoint import Checkpoint, CheckpointError
from benchmarks.gpu_runs import GIB, read, run, scenario
from benchmarks.memory import ranks_below
from benchmarks.resident import Resident

PROGRAM = Path(__file__).parent / "programs" / "small.py"
LOOK_S = 0.5
SLOTS = 4
"""Ranks that run, and so begin, at one time; the driver makes one context after the other anyway."""


def device_used() -> int:
    """Bytes of the device that are in use, asked without a context."""
    ask = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return int(subprocess.run(ask, capture_output=True, text=True, check=True).stdout.split()[0]) << 20


class Watch:
    """Looks at the ranks of a run: how many there are, what they take, and sends some through the checkpoint once."""

    def __init__(self, world: int, checkpointed: int, paused: Path) -> None:
        self.found: dict[str, Any] = {"begun_s": None, "device": 0}
        self._world = world
        self._checkpointed = checkpointed
        self._paused = paused
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Watch:
        self._before = device_used()
        self._start = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        worked = 0
        while not self._over.wait(LOOK_S):
            self.found["device"] = max(self.found["device"], device_used() - self._before)
            pids = sorted(ranks_below("self"))
            if len(pids) == self._world and self.found["begun_s"] is None:
                self.found["begun_s"] = time.monotonic() - self._start
            before, worked = worked, sum(map(_ticks, pids[1:]))  # the first is the one that pauses
            if self._paused.exists() and worked == before:
                self.found["checkpoint"] = checkpoint(pids[len(pids) - self._checkpointed :])
                self._paused.unlink()


def _ticks(pid: int) -> int:
    """What a process has worked, in ticks of the kernel's clock."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(words[11]) + int(words[12])


def checkpoint(pids: list[int]) -> dict[str, Any]:
    """Take processes off the device, all of them, then bring them back."""
    found: dict[str, Any] = {"processes": len(pids), "out_s": [], "back_s": [], "errors": []}
    saved: list[int] = []
    try:
        driver, before = Checkpoint(), device_used()
        for pid in pids:
            found["out_s"].append(_timed(driver.save, pid))
            saved.append(pid)
        found["freed"] = before - device_used()
    except CheckpointError as error:
        found["errors"].append(str(error))
    for pid in saved:
        try:
            found["back_s"].append(_timed(driver.restore, pid))
        except CheckpointError as error:
            found["errors"].append(str(error))
    return found


def _timed(call: Any, pid: int) -> float:
    start = time.perf_counter()
    call(pid)
    return round(time.perf_counter() - start, 3)


def measure(world: int, steps: int, checkpointed: int, out: Path, limit: float) -> dict[str, Any]:
    """One capture of so many ranks."""
    out.mkdir(parents=True)
    paused = out / "paused"
    more = f"devices: {{kind: cuda, slots: {SLOTS}}}\ncapture: {{payloads: control}}\nstages: [capture]\n"
    scenario(out, PROGRAM, [steps, *([paused] if checkpointed else [])], world, more)
    command = [sys.executable, "-m", "prism.coordinator", out / "scenario.yaml", "--out", out / "run", "-q"]
    start = time.monotonic()
    with Resident() as host, Watch(world, checkpointed, paused) as watch:
        failed = run(command, limit)
    wall = time.monotonic() - start
    ranks = read(out / "run" / "ranks", world, failed)
    losses = [report["loss"] for report in ranks.reports.values()]
    device = watch.found["device"] / world
    return {
        "world": world, "s": wall, "s_rank": wall / world, "told": len(losses), "losses": losses[:1],
        "losses_apart": _spread(losses), "host_rank": host.most / world, "device_rank": device, **watch.found,
        "failed": failed,
    }  # fmt: skip


def _spread(losses: list[list[float]]) -> float:
    """How far the losses of ranks lie apart, of those with the same number, as a part of them."""
    return max((max(same) / min(same) - 1 for same in zip(*losses, strict=True)), default=math.nan)


def growth(rows: list[dict[str, Any]]) -> Iterator[str]:
    """The exponent with which the time grows from one world to the next."""
    for one, other in itertools.pairwise(rows):
        exponent = math.log(other["s"] / one["s"]) / math.log(other["world"] / one["world"])
        yield f"from {one['world']} to {other['world']} ranks time grows with the number to the power of {exponent:.2f}"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=lambda text: [int(one) for one in text.split(",")], default=[32, 128])
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--checkpointed", type=int, default=8)
    parser.add_argument("--limit", type=float, default=150.0, help="seconds that a run may take")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path, help="folder for what the runs leave; left out: none of it is kept")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for world in options.worlds:
            some = options.checkpointed if world == max(options.worlds) else 0
            keep = (options.keep or Path(folder)) / f"many-{world}"
            rows.append(measure(world, options.steps, some, keep, options.limit))
            print(f"{world} ranks: {json.dumps(rows[-1])}", flush=True)
            print(f"    {rows[-1]['device_rank'] / GIB:.2f} GiB of the device a rank", flush=True)
            if options.json:
                options.json.write_text(json.dumps(rows, indent=1))
    print("\n".join(growth(rows)))


if __name__ == "__main__":
    main()
