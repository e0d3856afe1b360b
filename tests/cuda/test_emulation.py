"""Sandbox ranks on a real GPU, under torch's own NCCL group: bits, memory, bytes, and what ends a rank."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from prism.coordinator import Coordinator
from prism.core.graph import DTYPES, ITEMSIZE, REDUCES, NodeKind, OpKind
from prism.errors import ProgramError
from prism.gpu.emulation.device.built import library_path
from prism.gpu.pruned import Op
from prism.gpu.pruned.plans import plan
from prism.result import Result
from prism.scenario import Calibrate, Devices, Emulate, Fold, Scenario
from tests.running import references, scenario

JOBS = Path(__file__).parents[1] / "jobs"
DETERMINISTIC = Path(__file__).parents[2] / "benchmarks" / "programs" / "deterministically.py"
"""Runs a job by algorithms that give the same bits each time: by others, two captures differ."""
STAGES = ("capture", "calibrate", "replay", "emulate")
HANG = 60 * 10**9
"""ns: what stands still says where, before whoever runs the tests gives up on it."""
CASES = [(job, world) for world in (2, 8) for job in ("ddp", "fsdp2", "tp", "moe")]
FOLDED = [("ddp", 64), ("fsdp2", 64), ("tp", 64), ("moe", 64), ("ddp", 1024), ("tp", 1024)]

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(library_path() is None, reason="prism.gpu._device is not built"),
]


class Emulated:
    """A job captured and emulated on the GPU, `between` in between; `losses` of both, of each sandbox rank."""

    def __init__(
        self, job: str, world: int, out: Path, sandbox: tuple[int, ...] = (0,), memory: int = 0,
        fold: Fold | None = None, between: Callable[[], Any] = lambda: None,
    ) -> None:  # fmt: skip
        self.given: Scenario = scenario(
            DETERMINISTIC, (str(JOBS / f"job_{job}.py"), "3"), world, semantics="auto", stages=STAGES, hang_after=HANG,
            devices=Devices(kind="cuda"), calibrate=Calibrate(warmup=1), fold=fold,
            emulate=Emulate(sandbox=sandbox, contribution="exact"),
        )  # fmt: skip
        self.memory = memory
        self._between = between
        self.result: Result | None = None
        asyncio.run(self._run(out))
        self.losses = [
            tuple(references([(out / "ranks" / f"{rank}{stage}.log").read_text()]) for stage in ("", ".emulate"))
            for rank in sandbox
        ]

    async def _run(self, out: Path) -> None:
        async with Coordinator(self.given, out) as run:
            self.graph = await run.capture()
            if self.memory:
                run.scenario = msgspec.structs.replace(run.scenario, devices=Devices(kind="cuda", memory=self.memory))
            self._between()
            try:
                self.result = await run.emulate(self.graph)
            except ProgramError:
                self.result = run.result

    def sent_in_a_full_ring(self, rank: int) -> tuple[int, int]:
        """The sends and bytes of a rank, were all ranks there: what the plans of its even collectives say."""
        graph = self.graph
        lane = graph.nodes[graph.lane_ptr[rank] : graph.lane_ptr[rank + 1]]
        sends = nbytes = 0
        for row in graph.ops[lane["ref"][lane["kind"] == NodeKind.POST]]:
            kind, ranks = OpKind(row["kind"]), graph.groups[row["group"]].ranks
            if kind is OpKind.BARRIER:  # torch makes it a sum of one number
                op = Op(OpKind.ALL_REDUCE, len(ranks), "float32", "sum", -1, 1)
            else:
                dtype, reduce = DTYPES[row["dtype"]], REDUCES[row["reduce"]]
                op = Op(kind, len(ranks), dtype, reduce, int(row["root"]), int(row["nbytes"]) // ITEMSIZE[dtype])
            steps = [step for step in plan(op, ranks.index(rank)) if step.send]
            sends += len(steps)
            nbytes += sum(step.last - step.first for step in steps) * ITEMSIZE[op.dtype]
        return sends, nbytes


@pytest.mark.parametrize(("job", "world"), CASES)
def test_a_sandbox_rank_does_what_was_captured_of_it(job: str, world: int, tmp_path: Path) -> None:
    run = Emulated(job, world, tmp_path / "out")
    assert run.result is not None
    assert run.result.diagnosis is None
    ((captured, emulated),) = run.losses
    assert emulated[0]["loss"] == captured[0]["loss"]
    if job != "ddp":  # its peak differs from run to run, by when a bucket of gradients is given back
        assert emulated[0]["max_allocated"] == pytest.approx(captured[0]["max_allocated"], rel=1e-4)
    assert run.result.emulation is not None
    told = run.result.emulation
    assert told.ranks[0].peak_bytes == emulated[0]["max_allocated"]
    assert told.prefetch.hits > 0
    if job == "ddp":
        assert (told.ranks[0].steps, told.ranks[0].sent_bytes) == run.sent_in_a_full_ring(0)


@pytest.mark.parametrize(("job", "world"), FOLDED)
def test_a_sandbox_rank_among_folded_ones_does_what_was_captured_of_it(job: str, world: int, tmp_path: Path) -> None:
    verify = 0 if job == "moe" else 1  # each rank has data of its own, which decides where its tokens go
    fold = Fold(mesh={"rank": world}, over=("rank",), verify=verify, compare="steps")
    run = Emulated(job, world, tmp_path / "out", fold=fold)
    assert run.result is not None
    assert run.result.diagnosis is None
    ((captured, emulated),) = run.losses
    assert emulated[0]["world"] == world
    assert emulated[0]["loss"] == captured[0]["loss"]
    if job != "ddp":
        assert emulated[0]["max_allocated"] == pytest.approx(captured[0]["max_allocated"], rel=1e-4)


def test_a_capped_rank_runs_out_of_memory(tmp_path: Path) -> None:
    run = Emulated("pp", 2, tmp_path / "out", memory=2200 << 20)
    assert run.result is not None
    assert run.result.diagnosis is not None
    assert run.result.diagnosis.kind == "oom"
    assert run.result.diagnosis.ranks[0].rank == 0


@pytest.fixture
def share() -> Iterator[Callable[[], object]]:
    """Lets processes that begin from then on share the GPU at one time, by NVIDIA's service for it."""
    if shutil.which("nvidia-cuda-mps-control") is None:
        pytest.skip("nvidia-cuda-mps-control is not there: processes take turns on the GPU")
    yield lambda: subprocess.run(["nvidia-cuda-mps-control", "-d"], check=True, env=os.environ)
    subprocess.run(["nvidia-cuda-mps-control"], input=b"quit\n", check=False)


def test_two_sandbox_ranks_share_a_gpu(tmp_path: Path, share: Callable[[], object]) -> None:
    two_do_what_was_captured(tmp_path / "out", share)


def test_two_sandbox_ranks_take_turns_on_a_gpu(tmp_path: Path) -> None:
    two_do_what_was_captured(tmp_path / "out")


def two_do_what_was_captured(out: Path, between: Callable[[], object] = lambda: None) -> None:
    run = Emulated("ddp", 4, out, (0, 2), between=between)
    assert run.result is not None
    assert run.result.diagnosis is None
    assert len(run.losses) == 2
    for captured, emulated in run.losses:
        assert emulated[0]["loss"] == captured[0]["loss"]
