"""Jobs on two GPUs: for real, predicted from one of them, and emulated beside the other; all in one table.

    python -m benchmarks.two_gpus [--parts links,real,prism,kernels,engine,passing] [--runs 3] [--iterations 22]
                                  [--captured 8] [--for 520] [--limit 150] [--keep FOLDER] [--json FILE] [JOB...]

Parts, all if none is named, in this order. `links`: what NCCL's operations cost between the GPUs; the table that
predictions and emulations use from then on, links.csv in the folder. `real`: two ranks under NCCL, a GPU each. `prism`:
capture, calibration and replay on the first GPU, and two emulations of rank 0 there: with the virtual rank 1 on the
same GPU, and on the second. `kernels`: how many kernels of the emulated rank lie inside the spread of two real runs, by
torch.profiler. `engine`: all_reduces of the engine that stands in for NCCL against NCCL's. `passing`:
benchmarks.passing on two ranks.

Results are added to the file, which a later call goes on with, and printed as one table at the end. After `--for`
seconds no further run begins; each has `--limit` seconds. Without a GPU the jobs run on the CPU under gloo, `links`,
`kernels`, `engine` and `passing` are left out, and operations cost what the network model says.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import benchmarks.passing
from benchmarks.gpu_ranks import Failed, environments, printed
from benchmarks.gpu_runs import JOBS, result, run, scenario
from benchmarks.kernel_times import compared
from benchmarks.two_gpus_table import WARM_UPS, show
from prism.gpu.emulation.device.built import library_path

PROGRAMS = Path(__file__).parent / "programs"
PARTS = ("links", "real", "prism", "kernels", "engine", "passing")
MEGATRON = {"megatron_tp": (2, 1, 1, 0), "megatron_pp": (1, 2, 1, 0), "megatron_ep": (1, 1, 2, 0)}
KNOWN = ("ddp", "fsdp2", "tp", "pp", "moe", "hf", *MEGATRON)
ENGINE_BYTES = [4096, 65536, 1 << 20, 1 << 24, 1 << 26, 1 << 28, 1 << 30]


def program(job: str, iterations: int) -> list[Any]:
    """The script of a job and its arguments."""
    if job in MEGATRON:
        return [PROGRAMS / "timed_megatron.py", iterations, *MEGATRON[job]]
    return [JOBS / f"job_{job}.py", iterations]


def told(texts: Sequence[str], word: str) -> list[Any]:
    """What each rank printed behind a word."""
    lines = [[line for line in text.splitlines() if line.startswith(f"{word} ")] for text in texts]
    return [json.loads(line[-1].removeprefix(f"{word} ")) for line in lines if line]


class Bench:
    """The parts, by the options; `found` is what goes into the JSON file."""

    def __init__(self, options: argparse.Namespace, gpus: int) -> None:
        self._options = options
        self._gpus = gpus
        self._begun = time.monotonic()
        self._links = options.keep / "links.csv"
        self.found: dict[str, Any] = json.loads(options.json.read_text()) if options.json.is_file() else {}

    def links(self) -> None:
        """Measure them, and keep the table."""
        ranks = told(printed([PROGRAMS / "links.py"], self._two(), self._options.limit), "LINKS")
        rows = ["collective,group_size,link,bytes,time_us"]
        for collective in ranks[0]:
            for nbytes in ranks[0][collective]:
                last = _last([rank[collective][nbytes] for rank in ranks if collective in rank])
                rows.append(f"{collective},2,intra_node,{nbytes},{last:.2f}")
        self._links.write_text("\n".join(rows) + "\n")
        self._add("links", "all", rows[1:])

    def real(self, job: str) -> None:
        """One real run."""
        texts = printed(program(job, self._options.iterations), self._two(), self._options.limit)
        self._add("real", job, told(texts, "REF"))

    def prism(self, job: str) -> None:
        """One prediction and emulation."""
        out = self._folder(f"prism-{job}")
        failed = self._predicted_and_emulated(out, program(job, self._options.captured))
        logs = [out / "run" / "ranks" / name for name in ("0.log", "1.log", "0.emulate.log")]
        texts = [log.read_text() if log.is_file() else "" for log in logs]
        reports = dict(zip(("0", "1", "emulated"), (told([text], "REF") for text in texts), strict=True))
        first = out / "run" / "first.json"
        both = [json.loads(first.read_text()), result(out)] if first.is_file() else [result(out), {}]
        found = dict(zip(("result", "beside"), map(_figures, both), strict=True))
        told_of = {"contribution": self._options.contribution, "failed": failed, "reports": reports}
        self._add("prism", job, told_of | found)

    def kernels(self, job: str) -> None:
        """Two real runs and an emulated one, under the profiler."""
        if job in MEGATRON:
            return
        script, *arguments = program(job, self._options.captured)
        profiled, failed, runs = [PROGRAMS / "profiled.py", *arguments], "", []
        for name in ("first", "second", "emulated"):
            out = self._folder(f"kernels-{job}-{name}")
            own = {"PROFILED_JOB": str(script), "PROFILED_OUT": str(out / "kernels.json")}
            if name == "emulated":
                os.environ.update(own)
                failed = self._predicted_and_emulated(out, profiled)
            else:
                printed(profiled, [place | own for place in self._two()], self._options.limit)
            if not (out / "kernels.json").is_file():
                raise Failed(f"{name}, under the profiler: {failed or 'no kernels were told of'}")
            runs.append(json.loads((out / "kernels.json").read_text()))
        first, second, emulated = runs
        inside = {"plain": compared([first], second, WARM_UPS), **compared([first, second], emulated, WARM_UPS)}
        self._add("kernels", job, {"failed": failed, **inside})

    def engine(self) -> None:
        """All_reduces of two members, the other one virtual on either GPU, against NCCL's."""
        words = [PROGRAMS / "links.py", "all_reduce", *ENGINE_BYTES]
        ranks = [rank["all_reduce"] for rank in told(printed(words, self._two(), self._options.limit), "LINKS")]
        rows = {"nccl": {size: _last([rank[size] for rank in ranks]) for size in ranks[0]}}
        for name, device in (("beside", 1), ("together", -1)):
            words = [PROGRAMS / "device_engine.py", 2, device, *ENGINE_BYTES]
            (place,) = environments(1, self._gpus, library_path())
            found = told(printed(words, [place | {"PYTHONPATH": _paths()}], self._options.limit), "ENGINE")[0]
            rows[name] = {size: statistics.median(times) for size, times in found.items() if size != "start"}
        self._add("engine", "all", rows)

    def passing(self) -> None:
        """What the functions in front of NCCL cost."""
        library = library_path()
        assert library is not None
        self._add("passing", "all", benchmarks.passing.calls(2, ENGINE_BYTES, library, self._gpus, self._options.limit))

    def _two(self) -> list[dict[str, str]]:
        return environments(2, self._gpus)

    def in_time(self, *_: Any) -> bool:
        """Whether a run may still begin."""
        return time.monotonic() - self._begun < float(self._options.duration)

    def _folder(self, name: str) -> Path:
        number = len(list(self._options.keep.iterdir()))
        made: Path = self._options.keep / f"{number:03d}-{name}"
        made.mkdir()
        return made

    def _predicted_and_emulated(self, out: Path, words: Sequence[Any]) -> str:
        """All stages on the first GPU; then emulated once more, with the virtual rank on the second one."""
        self._scenario(out, words, "")
        failed = self._stages(out, "capture,calibrate,replay,emulate", "0")
        if self._gpus < 2:
            return failed
        if (out / "run" / "result.json").is_file():
            shutil.copy(out / "run" / "result.json", out / "run" / "first.json")
        self._scenario(out, words, ", arc_device: 1")
        return "; ".join(filter(None, [failed, self._stages(out, "emulate", "0,1")]))

    def _scenario(self, out: Path, words: Sequence[Any], beside: str) -> None:
        network = f"network: {{model: measured, table: {self._links}}}\n" if self._links.is_file() else ""
        emulate = f"emulate: {{sandbox: [0], contribution: {self._options.contribution}{beside}}}\n"
        kind = f"devices: {{kind: {'cuda' if self._gpus else 'cpu'}}}\n"
        kept = "capture: {payloads: control}\n" if self._options.contribution == "zeros" else ""
        scenario(out, words[0], words[1:], 2, f"{kind}{network}{kept}{emulate}output: {{formats: []}}\n")

    def _stages(self, out: Path, stages: str, visible: str) -> str:
        command = [sys.executable, "-m", "prism.coordinator", out / "scenario.yaml", "--out", out / "run", "-q"]
        chosen = ["env", f"CUDA_VISIBLE_DEVICES={visible}"] if self._gpus else []
        return run([*chosen, *command, "--stages", stages, "--resume"], self._options.limit)

    def _add(self, part: str, job: str, what: Any) -> None:
        self.found.setdefault(part, {}).setdefault(job, []).append(what)
        self._options.json.write_text(json.dumps(self.found, indent=1))
        print(f"{time.monotonic() - self._begun:6.1f} s  {part} {job}", flush=True)


def _last(ranks: Sequence[Sequence[float]]) -> float:
    """Of an operation's times by rank and round: the middle one of the ranks that came last."""
    return float(statistics.median(map(min, zip(*ranks, strict=True))))


def _paths() -> str:
    return os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])


def _figures(found: dict[str, Any]) -> dict[str, Any]:
    """What of a result the table needs."""
    names = ("status", "iteration_ns_median", "iteration_ns", "emulation", "diagnosis", "warnings", "calibration")
    return {name: found.get(name) for name in names} | {
        "peaks": [[rank["peak_bytes"], rank.get("reserved_bytes")] for rank in found.get("ranks", [])]
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=", ".join(KNOWN))
    parser.add_argument("--parts", type=lambda text: text.split(","), default=list(PARTS))
    parser.add_argument("--runs", type=int, default=3, help="of each job, really and by PRISM")
    parser.add_argument("--iterations", type=int, default=22, help="of a real run; the first two do not count")
    parser.add_argument("--captured", type=int, default=8, help="iterations that PRISM runs")
    parser.add_argument("--contribution", default="exact", help="of the virtual rank; with zeros losses mean nothing")
    parser.add_argument("--for", dest="duration", type=float, default=520.0, help="seconds")
    parser.add_argument("--limit", type=float, default=150.0, help="seconds that a run may take")
    parser.add_argument("--keep", type=Path, help="folder for what the runs leave; left out: none of it is kept")
    parser.add_argument("--json", type=Path, help="left out: two_gpus.json in the folder")
    options = parser.parse_args()
    import torch

    gpus = torch.cuda.device_count()
    with tempfile.TemporaryDirectory() as folder:
        options.jobs = options.jobs or list(KNOWN)
        options.keep = (options.keep or Path(folder)).absolute()
        options.keep.mkdir(parents=True, exist_ok=True)
        options.json = options.json or options.keep / "two_gpus.json"
        bench = Bench(options, gpus)
        _carry_out(bench, options, gpus)
        show(bench.found)


def _carry_out(bench: Bench, options: argparse.Namespace, gpus: int) -> None:
    """The parts; one run that fails does not keep the others from their turn."""
    for part in [part for part in PARTS if part in options.parts and (gpus or part in ("real", "prism"))]:
        by_job = part in ("real", "prism", "kernels")
        turns = range(1 if part == "kernels" else options.runs)
        calls = [(job,) for _ in turns for job in options.jobs] if by_job else [()]
        for call in itertools.takewhile(bench.in_time, calls):
            try:
                getattr(bench, part)(*call)
            except Exception as failed:  # of one run, whatever it is
                print(f"{part} {' '.join(call)}: {type(failed).__name__}: {failed}", flush=True)


if __name__ == "__main__":
    main()
