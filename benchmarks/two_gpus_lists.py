"""Which runs benchmarks.two_gpus makes, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

from benchmarks.gpu_runs import TAKES
from benchmarks.turns import Run
from benchmarks.two_gpus_runs import EXACT, MEGATRON, Runs

KNOWN = ("ddp", "tp", "pp", "fsdp2", "moe", "hf", *MEGATRON)
PROFILED = ("ddp", "tp", "fsdp2")
PACED = ("ddp", "tp", "fsdp2")
PARTS = ("paced", "emulated", "profiled", "engine", "megatron", "together", "exact")
"""What can be left out: not captures, predictions and the real runs beside those, which all others need."""
TOGETHER, APART = [("0", "1")], [("0",), ("1",)]


def listed(runs: Runs, jobs: list[str], times: int, gpus: int, parts: Collection[str]) -> list[list[Run]]:
    """All runs, the most valuable first; those of a list begin once the list before it is done.

    What is compared has its turns side by side: a machine is not the same minutes later.
    """
    takes = {job: TAKES.get(job, 2.5) for job in jobs}
    plain = [job for job in jobs if job not in MEGATRON]
    captured = [Run("links", runs.links, 2, TOGETHER, (3.0, 3.0))] if gpus else []
    captured += [_captured("captured", runs.captured, job, n % max(gpus, 1), takes[job]) for n, job in enumerate(jobs)]
    lists = {
        # Each has the machine to itself; the real runs that it is compared with come next.
        "paced": [[_paced(runs, job, takes[job])] for job in PACED if job in jobs and gpus > 1],
        "emulated": [_emulations(runs, plain, times, takes)],
        "profiled": [_profiles(runs, [job for job in PROFILED if job in jobs and gpus], takes)],
        "engine": [_engine(runs) if gpus else []],
        # These are slow to get ready: others of their batch would wait for them.
        "megatron": [
            [_emulated(runs, job, 1, beside, takes[job]) for job in jobs if job in MEGATRON for beside in (True, False)]
        ],
        "together": [[_emulated(runs, job, 1, False, takes[job]) for job in plain]],
        "exact": [_exact(runs, [job for job in jobs if job not in EXACT], gpus, takes)],
    }
    chosen = {part: found if part in parts else [] for part, found in lists.items()}
    beside = [_predictions(runs, jobs, times, gpus, takes), *chosen["emulated"], *chosen["profiled"], *chosen["engine"]]
    together = [run for found in beside for run in found]
    return [captured, *chosen["paced"], together, *chosen["megatron"], *chosen["together"], *chosen["exact"]]


def _predictions(runs: Runs, jobs: list[str], times: int, gpus: int, takes: Mapping[str, float]) -> list[Run]:
    """Each beside a real run."""
    real = [job for job in jobs if gpus or job not in MEGATRON]
    found = [_untimed(f"unheld-{job}", runs.unheld, job, (takes[job], takes[job])) for job in real if gpus]
    for number in range(1, times + 1):
        for job in jobs:
            found.append(_predicted(runs, job, number, takes[job], gpus))
            found += [_real(runs, job, number, takes[job], (f"captured-{job}",))] if job in real else []
    return found


def _emulations(runs: Runs, jobs: list[str], times: int, takes: Mapping[str, float]) -> list[Run]:
    """Each beside a real run."""
    found = []
    for number in range(1, times + 1):
        for job in jobs:
            found.append(_emulated(runs, job, number, True, takes[job]))
            found.append(_real(runs, job, times + number, takes[job], (f"predicted-{job}-{number}",)))
    return found


def _profiles(runs: Runs, jobs: list[str], takes: Mapping[str, float]) -> list[Run]:
    found = []
    for job in jobs:
        predicted = (f"predicted-{job}-1",)
        for name in ("first", "emulated", "second"):
            start = partial(runs.profiled, job, name)
            if name == "emulated":
                found.append(Run(f"{name}-{job}", start, 1, APART[:1], (takes[job], 2.0), predicted))
            else:
                found.append(Run(f"{name}-{job}", start, 2, TOGETHER, (takes[job], takes[job]), predicted))
    return found


def _engine(runs: Runs) -> list[Run]:
    beside = [Run(f"engine-{b}", partial(runs.engine, b), 1, APART[:1], (8.0, 8.0)) for b in (True, False)]
    nccl, passing = (
        Run(name, start, 2, TOGETHER, (8.0, 8.0)) for name, start in (("nccl", runs.nccl), ("passing", runs.passing))
    )
    return [nccl, *beside, passing]


def _exact(runs: Runs, jobs: list[str], gpus: int, takes: Mapping[str, float]) -> list[Run]:
    return [_captured("exact", runs.exact, job, n % max(gpus, 1), takes[job]) for n, job in enumerate(jobs)]


def _paced(runs: Runs, job: str, takes: float) -> Run:
    return _untimed(f"paced-{job}", runs.paced, job, (takes, 2.0))


def _real(runs: Runs, job: str, number: int, takes: float, after: tuple[str, ...]) -> Run:
    return Run(f"real-{job}-{number}", partial(runs.real, job), 2, TOGETHER, (takes, takes), after)


def _untimed(name: str, start: Callable[[str], None], job: str, takes: tuple[float, float]) -> Run:
    return Run(name, lambda _: start(job), 2, takes=takes)


def _captured(name: str, start: Callable[[str, int], None], job: str, gpu: int, takes: float) -> Run:
    place = (2 * takes, 0.0) if gpu == 0 else (0.0, 2 * takes)
    return Run(f"{name}-{job}", lambda _: start(job, gpu), 2, takes=place)


def _predicted(runs: Runs, job: str, number: int, takes: float, gpus: int) -> Run:
    after = (f"captured-{job}", *(["links"] if gpus else []))
    return Run(f"predicted-{job}-{number}", partial(runs.predicted, job, number), 2, APART, (2 * takes, 0.0), after)


def _emulated(runs: Runs, job: str, number: int, beside: bool, takes: float) -> Run:
    name = f"{'emulated' if beside else 'together'}-{job}-{number}"
    start, after = partial(runs.emulated, job, number, beside), (f"predicted-{job}-{number}",)
    return Run(name, start, 1, APART[:1], (takes + 1.0, 1.0), after)
