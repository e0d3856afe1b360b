"""Runs of random programs on both sides, and in what they differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from random_programs.generator import FLOATS, REDUCING
from random_programs.gloo_jobs import run_gloo_jobs
from random_programs.turns import Data, members

from prism.core.diagnosis import Diagnosis
from tests.running import capture, scenario

INTERPRETER = Path(__file__).with_name("interpret.py")

ROUNDING = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""The largest relative error of one rounding."""

LARGEST = 2.0
"""No float that the interpreter gives into a reduction is larger, and none smaller than 1."""


@dataclass(frozen=True)
class Outcome:
    """How a job went: whether all ranks came to their end, what each printed, and what PRISM made of it."""

    ended: bool
    output: list[str]
    diagnosis: Diagnosis | None = None
    warnings: tuple[str, ...] = ()

    def values(self, number: int) -> list[dict[int, str]]:
        """What each rank printed in one of the job's programs, by step."""
        found: list[dict[int, str]] = [{} for _ in self.output]
        for rank, text in enumerate(self.output):
            for line in text.splitlines():
                place, _, values = line.partition(" ")
                program, _, step = place.partition(".")
                if program == str(number):
                    found[rank][int(step)] = values
        return found


def under_prism(job: Sequence[Data]) -> Outcome:
    """Programs of one world size in one capture, under gloo's rules and on one or two slots."""
    with TemporaryDirectory(prefix="random-") as folder:
        file = Path(folder, "programs.json")
        file.write_text(json.dumps(job))
        slots = 1 + job[0]["seed"] // 2 % 2
        given = scenario(INTERPRETER, (str(file),), job[0]["world"], slots, hang_after=30 * 10**9)
        run = capture(given, Path(folder, "out"))
    warnings = tuple(f"{warning.kind}: {warning.summary}" for warning in run.result.warnings)
    return Outcome(run.result.diagnosis is None, run.output, run.result.diagnosis, warnings)


def under_gloo(jobs: Sequence[Sequence[Data]], timeout: float) -> list[Outcome]:
    """The same for real, each job with `timeout` seconds to come to its end."""
    with TemporaryDirectory(prefix="random-gloo-") as folder:
        requests = []
        for number, job in enumerate(jobs):
            directory = Path(folder, str(number))
            directory.mkdir()
            file = directory / "programs.json"
            file.write_text(json.dumps(job))
            request = {"script": str(INTERPRETER), "args": [str(file)], "world": job[0]["world"]}
            requests.append(request | {"directory": str(directory), "timeout": timeout})
        return [
            Outcome(all(code == 0 for code in codes), _outputs(Path(request["directory"]), len(codes)))
            for request, codes in zip(requests, run_gloo_jobs(requests, Path(folder)), strict=True)
        ]


def _outputs(directory: Path, world: int) -> list[str]:
    return [(directory / f"{rank}.out").read_text() for rank in range(world)]


def differences(made: Data, prism: list[dict[int, str]], gloo: list[dict[int, str]]) -> Iterator[str]:
    """Where the values of a program differ by more than the order of a fold explains."""
    for rank, (ours, theirs) in enumerate(zip(prism, gloo, strict=True)):
        for number in sorted(ours.keys() | theirs.keys()):
            mine, other = ours.get(number, "nothing"), theirs.get(number, "nothing")
            if mine != other and not _rounded(made, made["steps"][number], mine, other):
                yield f"step {number} on rank {rank}: PRISM gives {mine}, gloo {other}"


def _rounded(made: Data, step: Data, ours: str, theirs: str) -> bool:
    """Whether both are the same sums, products or averages of floats, folded in different orders."""
    if "nothing" in (ours, theirs) or step["call"] not in REDUCING or step["dtype"] not in FLOATS:
        return False
    size = len(members(made, step))
    bound = {"sum": size * LARGEST, "avg": LARGEST, "product": LARGEST**size}.get(step["reduce"], 0.0)
    # Each side rounds size - 1 times, and twice more for an average.
    tolerance = 2 * (size + 1) * ROUNDING[step["dtype"]] * bound
    mine, other = ([float.fromhex(value) for value in json.loads(text)] for text in (ours, theirs))
    return len(mine) == len(other) and all(abs(a - b) <= tolerance for a, b in zip(mine, other, strict=True))
