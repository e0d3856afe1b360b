"""The runs of benchmarks.two_gpus, one function each: carried out in a folder of its own, and what they told is kept.

What PRISM needs of a job is captured once; each prediction is of a copy of the capture, and each emulation of a copy of
its prediction, so that they can be repeated, and get ready side by side.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import benchmarks.passing
from benchmarks.gpu_ranks import Failed, environments, printed
from benchmarks.gpu_runs import JOBS, result, run, scenario
from benchmarks.kernel_times import compared
from benchmarks.two_gpus_table import WARM_UPS
from prism.gpu.emulation.device.built import library_path

PROGRAMS = Path(__file__).parent / "programs"
HELD = PROGRAMS / "held.py"
MEGATRON = {"megatron_tp": (2, 1, 1, 0), "megatron_pp": (1, 2, 1, 0), "megatron_ep": (1, 1, 2, 0)}
EXACT = ("pp", "moe", *MEGATRON)
"""Jobs that are emulated with the numbers of the capture: they decide what is sent, or are few. Others: `zeros`."""
SLOW = ("fsdp2", *EXACT)
SLOW_CAPTURED = 13
"""Iterations at most of those: they have many operations, or what these sent is kept."""
SHORT = 4
"""Iterations of a capture whose numbers are all kept."""
CALIBRATE = f"{{slice: 2, warmup: {WARM_UPS}}}"
"""Both ranks get ready at one time; they are timed one after the other."""
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


class Runs:
    """Of `iterations` really and `captured` by PRISM; until `until` of the monotonic clock. `found`: what they told."""

    def __init__(self, keep: Path, file: Path, gpus: int, iterations: int, captured: int, until: float) -> None:
        self._keep, self._file, self.gpus = keep, file, gpus
        self._iterations, self._captured, self._until = iterations, captured, until
        self._links = keep / "links.csv"
        self._lock = threading.Lock()
        self.found: dict[str, Any] = {}

    def links(self, turns: Path) -> None:
        """What NCCL's operations cost; the table of predictions and emulations from then on."""
        ranks = told(printed([PROGRAMS / "links.py"], self._two(turns), self._left()), "LINKS")
        rows = ["collective,group_size,link,bytes,time_us"]
        for collective in ranks[0]:
            for nbytes in ranks[0][collective]:
                last = _last([rank[collective][nbytes] for rank in ranks if collective in rank])
                rows.append(f"{collective},2,intra_node,{nbytes},{last:.2f}")
        self._links.write_text("\n".join(rows) + "\n")
        self.note("links", "all", rows[1:])

    def real(self, job: str, turns: Path) -> None:
        """Two ranks under NCCL, a GPU each."""
        texts = printed([HELD, *program(job, self._iterations)], self._two(turns), self._left())
        self.note("real", job, told(texts, "REF"))

    def unheld(self, job: str) -> None:
        """The same without a turn, for peaks of memory: what torch holds may be given back while a rank waits."""
        texts = printed(program(job, SHORT), environments(2, self.gpus), self._left())
        self.note("unheld", job, told(texts, "REF"))

    def captured(self, job: str, gpu: int) -> None:
        """What predictions and emulations are made from."""
        out = self._keep / f"captured-{job}"
        out.mkdir()
        self._scenario(out, job, ", pool: 2GiB")
        self._note_run("captured", job, out, self._stages(out, "capture", str(gpu), {}))

    def exact(self, job: str, gpu: int) -> None:
        """Few iterations with all numbers kept, and rank 0 emulated with those."""
        out = self._keep / f"exact-{job}"
        out.mkdir()
        self._scenario(out, job, ", pool: 2GiB", SHORT, exact=True)
        self._note_run("exact", job, out, self._stages(out, "capture,calibrate,emulate", str(gpu), {}))

    def predicted(self, job: str, number: int, turns: Path) -> None:
        """Calibration and replay, of the capture, on the first GPU."""
        out = self._copied(f"captured-{job}", f"predicted-{job}-{number}")
        self._scenario(out, job)
        failed = self._stages(out, "calibrate,replay", "0", {"HELD": str(turns)})
        self._note_run("predicted", job, out, failed)

    def paced(self, job: str) -> None:
        """The same with paced answers, and nothing else on the machine: the rank on the first GPU, others beside it."""
        out = self._copied(f"captured-{job}", f"paced-{job}")
        self._scenario(out, job, ", arc_device: 1", calibrate=f"{{warmup: {WARM_UPS}, answers: paced}}")
        failed = self._stages(out, "calibrate,replay", "0,1", {})
        self._note_run("paced", job, out, failed)

    def emulated(self, job: str, number: int, beside: bool, turns: Path) -> None:
        """Rank 0 on the first GPU, the virtual one on the second, or on the first too."""
        what = "emulated" if beside else "together"
        out = self._copied(f"predicted-{job}-{number}", f"{what}-{job}-{number}")
        failed = self._emulate(out, job, ", arc_device: 1" if beside and self.gpus > 1 else "", {"HELD": str(turns)})
        self._note_run(what, job, out, failed)

    def profiled(self, job: str, name: str, turns: Path) -> None:
        """Really, or for the name `emulated` beside the second GPU, under torch's profiler; who ends last compares."""
        folder = self._keep / f"kernels-{job}"
        folder.mkdir(exist_ok=True)
        own = {"PROFILED_JOB": str(HELD), "PROFILED_OUT": str(folder / f"{name}.json"), "HELD": str(turns)}
        failed = ""
        if name == "emulated":
            out = self._copied(f"predicted-{job}-1", f"profiled-{job}")
            beside = ", arc_device: 1" if self.gpus > 1 else ""
            failed = self._emulate(out, job, f"{beside}, program: {PROGRAMS / 'profiled.py'}", own)
        else:
            words = [PROGRAMS / "profiled.py", *program(job, self._captured)]
            printed(words, [place | own for place in self._two(turns)], self._left())
        if failed:
            raise Failed(failed)
        files = [folder / f"{each}.json" for each in ("first", "second", "emulated")]
        if not all(file.is_file() for file in files):
            return
        first, second, emulated = (json.loads(file.read_text()) for file in files)
        plain = compared([first], second, WARM_UPS)
        self.note("kernels", job, {"plain": plain, **compared([first, second], emulated, WARM_UPS)})

    def nccl(self, turns: Path) -> None:
        """All_reduces of NCCL, for what the engine is measured against."""
        words = [PROGRAMS / "links.py", "all_reduce", *ENGINE_BYTES]
        ranks = [rank["all_reduce"] for rank in told(printed(words, self._two(turns), self._left()), "LINKS")]
        self.note("engine", "nccl", {size: _last([rank[size] for rank in ranks]) for size in ranks[0]})

    def engine(self, beside: bool, turns: Path) -> None:
        """All_reduces of two members, the other one virtual on either GPU."""
        words = [PROGRAMS / "device_engine.py", 2, 1 if beside else -1, *ENGINE_BYTES]
        (place,) = environments(1, self.gpus, library_path())
        found = told(printed(words, [place | {"HELD": str(turns)}], self._left()), "ENGINE")[0]
        times = {size: statistics.median(times) for size, times in found.items() if size != "start"}
        self.note("engine", "beside" if beside else "together", times)

    def passing(self, turns: Path) -> None:
        """What the functions in front of NCCL cost."""
        places = [place | {"HELD": str(turns)} for place in environments(2, self.gpus, library_path())]
        self.note("passing", "all", benchmarks.passing.calls(places, ENGINE_BYTES, self._left()))

    def note(self, part: str, job: str, what: Any) -> None:
        """Keep it, in the file too."""
        with self._lock:
            self.found.setdefault(part, {}).setdefault(job, []).append(what)
            self._file.write_text(json.dumps(self.found, indent=1))

    def _two(self, turns: Path) -> list[dict[str, str]]:
        return [place | {"HELD": str(turns)} for place in environments(2, self.gpus)]

    def _captured_of(self, job: str) -> int:
        return min(self._captured, SLOW_CAPTURED) if job in SLOW else self._captured

    def _left(self) -> float:
        return max(self._until - time.monotonic(), 1.0)

    def _emulate(self, out: Path, job: str, more: str, own: dict[str, str]) -> str:
        self._scenario(out, job, more)
        return self._stages(out, "emulate", "0,1", own)

    def _scenario(
        self, out: Path, job: str, emulate: str = "", iterations: int = 0, exact: bool | None = None,
        calibrate: str = CALIBRATE,
    ) -> None:  # fmt: skip
        exact = job in EXACT if exact is None else exact
        presented = "" if self.gpus or job not in MEGATRON else ", present_as: H200"
        lines = [
            f"devices: {{kind: {'cuda' if self.gpus else 'cpu'}{presented}}}",
            f"capture: {{payloads: {'all' if exact else 'control'}}}",
            f"calibrate: {calibrate}",
            f"emulate: {{sandbox: [0], contribution: {'exact' if exact else 'zeros'}{emulate}}}",
            "output: {formats: []}",
            "stages: [capture, calibrate, replay, emulate]",
        ]
        if self._links.is_file():
            lines.append(f"network: {{model: measured, table: {self._links}}}")
        words = program(job, iterations or self._captured_of(job))
        scenario(out, HELD, words, 2, "\n".join(lines) + "\n")

    def _stages(self, out: Path, stages: str, visible: str, own: dict[str, str]) -> str:
        command = [sys.executable, "-m", "prism.coordinator", out / "scenario.yaml", "--out", out / "run", "-q"]
        chosen = own | ({"CUDA_VISIBLE_DEVICES": visible} if self.gpus else {})
        words = ["env", *(f"{name}={value}" for name, value in chosen.items()), *command]
        return run([*words, "--stages", stages, "--resume"], self._left())

    def _copied(self, source: str, target: str) -> Path:
        """A folder with the run of another; what is large is only linked."""
        out = self._keep / target
        shutil.copytree(self._keep / source, out, symlinks=True, copy_function=_copy)
        return out

    def _note_run(self, part: str, job: str, out: Path, failed: str) -> None:
        """What the table needs of a run by PRISM, and what its ranks told; raises Failed where it failed."""
        logs = {name: out / "run" / "ranks" / f"{name}.log" for name in ("0", "1", "0.emulate")}
        texts = {name: log.read_text() if log.is_file() else "" for name, log in logs.items()}
        found = result(out)
        names = ("status", "iteration_ns_median", "iteration_ns", "emulation", "diagnosis", "warnings", "calibration")
        figures = {
            "failed": failed,
            "reports": {name: told([text], "REF") for name, text in texts.items()},
            "peaks": [[rank["peak_bytes"], rank.get("reserved_bytes")] for rank in found.get("ranks", [])],
            **{name: found.get(name) for name in names},
        }
        self.note(part, job, figures)
        if failed:
            raise Failed(failed)


def _last(ranks: Sequence[Sequence[float]]) -> float:
    """Of an operation's times by rank and round: the middle one of the ranks that came last."""
    return float(statistics.median(map(min, zip(*ranks, strict=True))))


def _copy(source: str, target: str) -> None:
    if os.stat(source).st_size > 1 << 20:
        os.link(source, target)
    else:
        shutil.copy2(source, target)
