"""Sandbox ranks on a real GPU, under torch's own NCCL group: bits, memory, bytes, and what ends a rank."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from prism.coordinator import Coordinator
from prism.core.graph import NodeKind, OpKind
from prism.core.timeline.network import op_traffic
from prism.errors import ProgramError
from prism.gpu.emulation.device.built import library_path
from prism.result import Result
from prism.scenario import Calibrate, Devices, Emulate, Scenario
from tests.running import references, scenario

JOBS = Path(__file__).parents[1] / "jobs"
DETERMINISTIC = Path(__file__).parents[2] / "benchmarks" / "programs" / "deterministically.py"
"""Runs a job by algorithms that give the same bits each time: by others, two captures differ."""
STAGES = ("capture", "calibrate", "replay", "emulate")
CASES = [(job, world) for world in (2, 8) for job in ("ddp", "fsdp2", "tp", "moe")]

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(library_path() is None, reason="prism.gpu._device is not built"),
]


class Emulated:
    """A job under all stages on the GPU; `losses` as captured and as emulated, of each sandbox rank."""

    def __init__(self, job: str, world: int, out: Path, sandbox: tuple[int, ...] = (0,), memory: int = 0) -> None:
        self.given: Scenario = scenario(
            DETERMINISTIC, (str(JOBS / f"job_{job}.py"), "3"), world, semantics="auto", stages=STAGES,
            devices=Devices(kind="cuda"), calibrate=Calibrate(warmup=1),
            emulate=Emulate(sandbox=sandbox, contribution="exact"),
        )  # fmt: skip
        self.memory = memory
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
            try:
                self.result = await run.emulate(self.graph)
            except ProgramError:
                self.result = run.result

    def bytes_of_a_full_ring(self, rank: int) -> tuple[int, int]:
        """The steps and bytes of all collectives of a rank but barriers, which torch makes sums of one number."""
        graph = self.graph
        lane = graph.nodes[graph.lane_ptr[rank] : graph.lane_ptr[rank + 1]]
        ops = lane["ref"][lane["kind"] == NodeKind.POST]
        barriers = int((graph.ops["kind"][ops] == OpKind.BARRIER).sum())
        traffic, size = op_traffic(graph, 8), graph.world_size
        ops = ops[graph.ops["kind"][ops] != OpKind.BARRIER]
        return int(traffic.steps[ops].sum()) + barriers * 2 * (size - 1), int(traffic.nbytes[ops].sum())


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
        steps, nbytes = run.bytes_of_a_full_ring(0)
        assert told.ranks[0].steps == steps
        assert told.ranks[0].sent_bytes == pytest.approx(nbytes, abs=16 * steps)  # of barriers, and of what is left


def test_a_capped_rank_runs_out_of_memory(tmp_path: Path) -> None:
    run = Emulated("pp", 2, tmp_path / "out", memory=2200 << 20)
    assert run.result is not None
    assert run.result.diagnosis is not None
    assert run.result.diagnosis.kind == "oom"
    assert run.result.diagnosis.ranks[0].rank == 0


@pytest.fixture
def shared_gpu() -> Iterator[None]:
    """Processes that share the GPU at one time, by NVIDIA's service for it."""
    if shutil.which("nvidia-cuda-mps-control") is None:
        pytest.skip("nvidia-cuda-mps-control is not there: processes take turns on the GPU")
    subprocess.run(["nvidia-cuda-mps-control", "-d"], check=True, env=os.environ)
    yield
    subprocess.run(["nvidia-cuda-mps-control"], input=b"quit\n", check=False)


@pytest.mark.usefixtures("shared_gpu")
def test_two_sandbox_ranks_share_a_gpu(tmp_path: Path) -> None:
    run = Emulated("ddp", 4, tmp_path / "out", (0, 2))
    assert run.result is not None
    assert run.result.diagnosis is None
    for captured, emulated in run.losses:
        assert emulated[0]["loss"] == captured[0]["loss"]
