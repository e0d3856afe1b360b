"""Jobs on two GPUs: for real, predicted from one of them, and emulated beside the other; all in one table.

    python -m benchmarks.two_gpus [--runs 3] [--iterations 23] [--captured 23] [--for 520] [--ranks 24]
                                  [--start 60] [--parts paced,...] [--keep FOLDER] [--json FILE] [JOB...]

In order of value: what NCCL's operations cost between the GPUs, the table that predictions and emulations use;
predictions with paced answers; of each job predictions (calibration and replay on the first GPU) and emulations of
rank 0 there, with the virtual rank 1 on the second, and beside each of them a real run, two ranks under NCCL, a GPU
each; how many kernels of the emulated rank lie inside the spread of two real runs, by torch.profiler; all_reduces of
the engine that stands in for NCCL against NCCL's; NCCL called through the functions in front of it; emulations of
Megatron; emulations with the virtual rank on the same GPU; captures with all numbers kept, and emulations from them,
for losses.

Runs get ready side by side, `--ranks` at most at one time, and are timed one after the other (benchmarks.turns); before
each turn both GPUs are kept busy for a moment, or who is first would find them cool. What was found is in the file
after every run. After `--for` seconds no further run begins. Without a GPU the jobs run on the CPU under gloo, Megatron
under PRISM alone; only jobs are run, and operations cost what the network model says.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks.turns import Batch, Run, batch
from benchmarks.two_gpus_lists import KNOWN, PARTS, listed
from benchmarks.two_gpus_runs import Runs
from benchmarks.two_gpus_table import show

TURN_S = 30.0
SHORTEST_S = 40.0
"""A batch that would have less does not begin."""
BUSY_S = 0.3


class Busy:
    """Matrix products on every GPU: who has the first turn is to find them as warm as who has the last."""

    def __init__(self, gpus: int) -> None:
        import torch

        self._multiply = torch.mm
        self._done = [partial(torch.cuda.synchronize, gpu) for gpu in range(gpus)]
        self._tensors = [
            [torch.randn(8192, 8192, device=f"cuda:{gpu}", dtype=torch.bfloat16) for _ in range(3)]
            for gpu in range(gpus)
        ]

    def __call__(self) -> None:
        """For a moment."""
        end = time.monotonic() + BUSY_S
        while self._tensors and time.monotonic() < end:
            for one, other, product in self._tensors * 20:
                self._multiply(one, other, out=product)
            for done in self._done:
                done()


def carry_out(runs: Runs, lists: list[list[Run]], options: argparse.Namespace, until: float, keep: Path) -> None:
    """Batch by batch; a run that fails does not keep the others from their turn, but for those that need it."""
    ended: set[str] = set()
    failed: set[str] = set()
    number, begun, busy = 0, time.monotonic(), Busy(runs.gpus)
    for waiting in lists:
        while until - time.monotonic() > SHORTEST_S and (chosen := batch(waiting, ended, options.ranks)):
            one = Batch(chosen, keep / f"turns-{number}")
            one.carry_out(options.start, TURN_S, until, busy)
            names = {run.name for run in chosen}
            for name, why in one.failed.items():
                runs.note("failed", name, why)
            failed |= set(one.failed)
            ended |= names - failed
            waiting = [run for run in waiting if run.name not in names]
            number += 1
            print(f"{time.monotonic() - begun:6.1f} s  done: {' '.join(sorted(names))}", flush=True)
            for name, why in one.failed.items():
                print(f"  {name}: {why[-600:]}", flush=True)


def _parts(text: str) -> list[str]:
    parts = list(filter(None, text.split(",")))
    if wrong := sorted({*parts} - {*PARTS}):
        raise argparse.ArgumentTypeError(f"no such part: {', '.join(wrong)}; there are {', '.join(PARTS)}")
    return parts


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=", ".join(KNOWN))
    parser.add_argument("--runs", type=int, default=3, help="of each job, predicted and emulated")
    parser.add_argument("--iterations", type=int, default=23, help="of a real run; the first three do not count")
    parser.add_argument("--captured", type=int, default=23, help="iterations that PRISM runs; the first three as well")
    parser.add_argument("--for", dest="duration", type=float, default=520.0, help="seconds")
    parser.add_argument("--ranks", type=int, default=24, help="that get ready at one time")
    parser.add_argument("--start", type=float, default=60.0, help="seconds for that, once captures are done")
    parser.add_argument("--parts", type=_parts, default=PARTS, help=f"what else is run, of {','.join(PARTS)}")
    parser.add_argument("--keep", type=Path, help="folder for what the runs leave; left out: none of it is kept")
    parser.add_argument("--json", type=Path, help="left out: two_gpus.json in the folder")
    options = parser.parse_args()
    until = time.monotonic() + options.duration
    import torch

    gpus = torch.cuda.device_count()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        keep = (options.keep or Path(folder)).absolute()
        keep.mkdir(parents=True, exist_ok=True)
        file = options.json or keep / "two_gpus.json"
        runs = Runs(keep, file, gpus, options.iterations, options.captured, until)
        lists = listed(runs, options.jobs or list(KNOWN), options.runs, gpus, options.parts)
        carry_out(runs, lists, options, until, keep)
        show(runs.found)


if __name__ == "__main__":
    main()
