"""Ranks that do not fit on a GPU together, and take turns in its memory: each against a run of it alone, bit for bit.

    python -m benchmarks.gpu_pressure [--limit 150] [--keep FOLDER] [--json FILE] [SECTION...]

Sections, all if none is named. `turns`: 8 ranks of 24 GiB each, with what host memory there is, and a disk in case.
`cap`: ranks of 24 and 12 GiB under a cap of 16 GiB, captured and under real NCCL. `spill`: 16 ranks of half a GiB
beside a process that leaves them little of the device, with host memory for 6 of them and a disk for the rest. How much
has to move, and how much host memory that takes, is worked out in tests/core/test_paging_budget.py.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.gpu_runs import GIB, Run, read, result, run, scenario
from benchmarks.real_ranks import RealRanks
from prism.net.scratch import SHARED_MEMORY

PROGRAM = Path(__file__).parent / "programs" / "heavy.py"
CONTEXT = 0.67
"""GiB of the device that a rank takes beside its tensors."""
STEPS = {"turns": 2, "cap": 2, "spill": 1}
"""Of training. In one step most ranks leave once and come back; the sums that are compared come after that."""
COPIES = 108 * GIB
"""Host memory for `turns`: four ranks are copied at one time, three that do not fit and one that leaves for another."""
LEFT = 2 * GIB
"""Of the file system in memory, for all else that lies there."""
BESIDE = """
import sys, torch
free, _ = torch.cuda.mem_get_info()
held = torch.empty(max(0, free - int(sys.argv[1])), dtype=torch.uint8, device="cuda")
print("held", flush=True)
sys.stdin.read()
"""


class Pressure:
    """The sections; `keep` holds what their runs leave."""

    def __init__(self, keep: Path, limit: float) -> None:
        self._keep = keep.resolve()  # a relative folder would be one beside the scenario
        self._limit = limit
        self._real = RealRanks()

    def turns(self) -> dict[str, Any]:
        """8 ranks of 24 GiB."""
        host = min(COPIES, shutil.disk_usage(SHARED_MEMORY).free - LEFT)
        return self._paged("turns", 8, 24, 5, f", slots: 1, host_memory: {host}B, spill: {self._folder('turns-disk')}")

    def cap(self) -> dict[str, Any]:
        """Ranks under a cap that half of them exceed."""
        cap, world = 16 * GIB, 8
        ours, _, wall = self._captured("cap", world, "24,12", f", memory: {cap}B")
        logs = self._folder("cap-real")
        failed = self._real.run([PROGRAM, "24,12", STEPS["cap"]], world, logs, self._limit, cap)
        theirs = read(logs, world, failed)
        return {"captured": ours.oom, "real": theirs.oom, "same": ours.oom == theirs.oom, "s": wall,
                "failed": ours.failed[-800:], "real_failed": failed[-300:]}  # fmt: skip

    def spill(self) -> dict[str, Any]:
        """16 ranks of half a GiB, of which 4 fit on the device, and 6 in host memory."""
        world, room = 16, 2.6
        left = int((world * CONTEXT + 1.5 + room) * GIB)
        beside = subprocess.Popen(
            [sys.executable, "-c", BESIDE, str(left)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert beside.stdout is not None
        beside.stdout.readline()
        disk = self._folder("disk")
        try:
            return self._paged("spill", world, 0.5, world, f", host_memory: 3600MiB, spill: {disk}", beside)
        finally:
            beside.kill()
            beside.wait()

    def _paged(
        self, name: str, world: int, gib: float, at_once: int, more: str, beside: subprocess.Popen[str] | None = None
    ) -> dict[str, Any]:
        ours, found, wall = self._captured(name, world, str(gib), more)
        if beside is not None:  # the runs alone need the device
            beside.kill()
        with ThreadPoolExecutor(at_once) as pool:
            alone = list(pool.map(lambda rank: self._alone(name, gib, rank), range(world)))
        keys = ("loss", "sums", "max_allocated", "max_reserved")
        equal = {
            key: [rank for rank in range(world) if _told(ours, rank, key) == _told(alone[rank], 0, key) != None]  # noqa: E711
            for key in keys
        }
        differ = {rank: (ours.reports.get(rank), alone[rank].reports.get(0)) for rank in range(world)
                  if rank not in equal["loss"] or rank not in equal["sums"]}  # fmt: skip
        return {"world": world, "gib": gib, "s": wall, "equal": equal, "residency": found.get("residency"),
                "failed": ours.failed[-1500:], "differ": differ}  # fmt: skip

    def _captured(self, name: str, world: int, sizes: str, more: str) -> tuple[Run, dict[str, Any], float]:
        out, begun = self._folder(name), time.monotonic()
        scenario(out, PROGRAM, [sizes, STEPS[name]], world, f"devices: {{kind: cuda{more}}}\nstages: [capture]\n")
        command = [sys.executable, "-m", "prism.coordinator", out / "scenario.yaml", "--out", out / "run"]
        failed = run(command, self._limit)
        return read(out / "run" / "ranks", world, failed), result(out), time.monotonic() - begun

    def _alone(self, name: str, gib: float, rank: int) -> Run:
        logs = self._folder(f"{name}-alone-{rank}")
        failed = self._real.run([PROGRAM, gib, STEPS[name], rank], 1, logs, self._limit)
        return read(logs, 1, failed)

    def _folder(self, name: str) -> Path:
        made = self._keep / name
        made.mkdir(parents=True)
        return made


def _told(of: Run, rank: int, key: str) -> Any:
    return of.reports.get(rank, {}).get(key)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help="turns, cap, spill")
    parser.add_argument("--limit", type=float, default=150.0, help="seconds that a run may take")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path, help="folder for what the runs leave; left out: none of it is kept")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        pressure = Pressure(options.keep or Path(folder), options.limit)
        for section in options.sections or ["turns", "cap", "spill"]:
            part: Callable[[], dict[str, Any]] = getattr(pressure, section)
            found[section] = part()
            print(f"{section}: {json.dumps(found[section])}", flush=True)
            if options.json:
                options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
