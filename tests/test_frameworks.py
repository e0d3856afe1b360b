"""Hugging Face, DeepSpeed and Lightning jobs, as their users run them: under PRISM they print what they do on gloo."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
from gloo_reference import run_gloo

from prism.scenario import Program
from tests.running import capture, references, scenario

pytestmark = pytest.mark.slow

JOBS = Path(__file__).with_name("jobs")
TIMEOUT_S = 300.0
"""Each gloo rank imports its framework by itself, and the first to run DeepSpeed compiles an extension."""


@dataclass(frozen=True)
class Job:
    """A job, the frameworks it needs, and what its ranks import once for all of them."""

    name: str
    args: tuple[str, ...]
    needs: tuple[str, ...]
    preload: tuple[str, ...]

    def __str__(self) -> str:
        return "-".join((self.name, *self.args))

    def check(self) -> None:
        """Skip the test where a framework is not installed."""
        missing = [module for module in self.needs if find_spec(module) is None]
        if missing:
            pytest.skip(f"{self} needs {', '.join(missing)}: install the extra `frameworks`")


TRAINER = (("transformers", "accelerate"), ("transformers.trainer", "transformers.models.qwen3_moe.modeling_qwen3_moe"))
FRAMEWORKS = [
    Job("job_hf_trainer", ("dense",), *TRAINER),
    Job("job_hf_trainer", ("moe",), *TRAINER),
    *(Job("job_deepspeed", (stage,), ("deepspeed",), ("deepspeed",)) for stage in ("1", "2", "3")),
    Job("job_lightning", (), ("lightning",), ("lightning",)),
]
MODEL = Job("job_hf", ("4",), ("transformers",), ("transformers.models.qwen3_moe.modeling_qwen3_moe",))


def gloo_output(job: Job, world: int) -> list[str]:
    """What each rank prints for real."""
    return run_gloo(JOBS / f"{job.name}.py", job.args, world, TIMEOUT_S)


def prism_output(job: Job, world: int, out: Path) -> list[str]:
    """What each rank prints under PRISM."""
    script = JOBS / f"{job.name}.py"
    program = Program(script=str(script), args=job.args, preload=job.preload)
    run = capture(scenario(script, world=world, program=program), out)
    assert (run.result.diagnosis, run.result.warnings) == (None, [])
    return run.output


def reported(output: list[str]) -> list[list[str]]:
    """The REF lines of each rank; they hold no times."""
    return [[line for line in text.splitlines() if line.startswith("REF ")] for text in output]


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("job", FRAMEWORKS, ids=str)
def test_reports_equal_gloo(job: Job, world: int, tmp_path: Path) -> None:
    job.check()
    expected = reported(gloo_output(job, world))
    assert [len(lines) for lines in expected] == [1] * world
    assert reported(prism_output(job, world, tmp_path / "out")) == expected


@pytest.mark.parametrize(
    ("world", "tolerance"),
    [(2, 0.0), (4, 1e-6)],  # two numbers have one sum; of more, gloo adds in another order, which costs the last bit
)
def test_losses_of_a_model_equal_gloo(world: int, tolerance: float, tmp_path: Path) -> None:
    MODEL.check()
    expected = references(gloo_output(MODEL, world))
    found = references(prism_output(MODEL, world, tmp_path / "out"))
    assert [report["rank"] for report in found] == list(range(world))
    for mine, theirs in zip(found, expected, strict=True):
        assert mine["loss"] == pytest.approx(theirs["loss"], rel=tolerance, abs=0)
