"""What it costs that real NCCL is called through the functions in front of it (ext/nccl/shim), and that it works.

    python -m benchmarks.passing [--ranks 1,2] [--bytes 4096,1048576,67108864] [--library FILE] [--limit 120]
                                 [--json FILE] [SECTION...]

Sections, both if none is named. `calls`: an all_reduce straight and through, by turns in one process. `losses`: job_ddp
on two ranks with the library preloaded and without it, by deterministic algorithms: the losses are the same numbers.
Ranks beyond the number of GPUs share them, each with a host id of its own; then times are those of processes that take
turns on a GPU. `more ns`: what a call takes longer on the host.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu_ranks import environments, printed
from prism.gpu.emulation.device.built import library_path

PROGRAM = Path(__file__).parent / "programs" / "passing.py"
JOB = Path(__file__).parents[1] / "tests" / "jobs" / "job_ddp.py"
DETERMINISTIC = PROGRAM.with_name("deterministically.py")
ITERATIONS = 6


def calls(places: Sequence[dict[str, str]], sizes: Sequence[int], limit: float) -> list[dict[str, Any]]:
    """For each size the medians of both ways and how they compare, on ranks in environments with the library in it."""
    with tempfile.TemporaryDirectory() as folder:
        first = printed([PROGRAM, folder, *sizes], places, limit)[0]
    line = next(line for line in first.splitlines() if line.startswith("PASSING "))
    found = json.loads(line.removeprefix("PASSING "))
    rows = []
    for nbytes, ways in found.items():
        row: dict[str, Any] = {"ranks": len(places), "bytes": int(nbytes)}
        for clock in ("stream", "host"):
            straight, through = (statistics.median(ways[way][clock]) for way in ("straight", "through"))
            pairs = zip(ways["straight"][clock], ways["through"][clock], strict=True)
            ratio = statistics.median(one / other for other, one in pairs)
            row[clock] = {"straight_us": straight, "through_us": through, "ratio": ratio}
        rows.append(row)
    return rows


def losses(ranks: int, library: Path | None, gpus: int, limit: float) -> list[Any]:
    """Of each rank of job_ddp."""
    reports = []
    for text in printed([DETERMINISTIC, JOB, ITERATIONS], environments(ranks, gpus, library), limit):
        line = [line for line in text.splitlines() if line.startswith("REF ")][-1]
        reports.append(json.loads(line.removeprefix("REF "))["loss"])
    return reports


def main(arguments: Sequence[str] | None = None) -> int:
    """The table; 1 if the losses differ."""
    options = _options(arguments)
    import torch

    gpus, found, status = torch.cuda.device_count(), dict[str, Any](), 0
    library = options.library or library_path()
    if library is None or gpus == 0:
        print("it takes a GPU and prism.gpu._device, which `make ext` builds where there is nvcc")
        return 2
    if "calls" in options.sections:
        found["calls"] = [
            row
            for ranks in options.ranks
            for row in calls(environments(ranks, gpus, library), options.bytes, options.limit)
        ]
        print(f"{'ranks':>5}{'bytes':>12}{'straight us':>14}{'through us':>12}{'ratio':>9}{'more ns':>9}")
        for row in found["calls"]:
            stream = row["stream"]
            times = f"{stream['straight_us']:>14.2f}{stream['through_us']:>12.2f}{stream['ratio']:>9.4f}"
            more = 1e3 * (row["host"]["through_us"] - row["host"]["straight_us"])
            print(f"{row['ranks']:>5}{row['bytes']:>12}{times}{more:>9.0f}", flush=True)
    if "losses" in options.sections:
        plain, through = (losses(2, way, gpus, options.limit) for way in (None, library))
        found["losses"], status = {"plain": plain, "through": through}, int(plain != through)
        print(f"losses of job_ddp on two ranks: {'the same numbers' if plain == through else 'DIFFER'}: {through[0]}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    return status


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.passing", description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="SECTION")
    parser.add_argument("--ranks", type=_numbers, default=[1, 2])
    parser.add_argument("--bytes", type=_numbers, default=[4096, 1 << 20, 1 << 26])
    parser.add_argument("--library", type=Path)
    parser.add_argument("--limit", type=float, default=120)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    options.sections = options.sections or ["calls", "losses"]
    return options


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
