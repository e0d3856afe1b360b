"""Real NCCL, N ranks on one GPU, against the engines: each sum has the same bits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from prism.core.graph import OpKind
from prism.gpu.emulation.device.built import library_path
from tests.nccl.oracle import CASES, Case, real_environment, result_of, sums

pytest.importorskip("prism.gpu.pruned", exc_type=ImportError)
from prism.gpu.pruned import Op
from tests.nccl.cast import Cast

SIZES = [2, 4, 8]
ROOT = Path(__file__).parents[2]
Results = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("oracle")


def process(directory: Path, who: str, rank: int, size: int, environment: dict[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.nccl.oracle", who, str(rank), str(size), str(directory)]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)


def ended(processes: list[subprocess.Popen[str]]) -> None:
    try:
        for each in processes:
            _, errors = each.communicate(timeout=150)
            assert each.returncode == 0, errors[-3000:]
    finally:
        for each in processes:
            each.kill()


def real(directory: Path, size: int) -> list[Results]:
    """What each rank of real NCCL has; made once for each size."""
    paths = [directory / f"real-{size}-{rank}.pt" for rank in range(size)]
    if not paths[0].exists():
        ended([process(directory, "real", rank, size, real_environment(rank)) for rank in range(size)])
    return [torch.load(path) for path in paths]


def on_the_cpu(folder: Path, case: Case, given: list[torch.Tensor]) -> list[torch.Tensor]:
    """The CPU engine's results, all members real."""
    size, inputs = len(given), {rank: tensor.clone() for rank, tensor in enumerate(given)}
    scattered = case.kind is OpKind.REDUCE_SCATTER
    outputs = {rank: given.new_empty(case.block) for rank, given in inputs.items()} if scattered else inputs
    folder.mkdir()
    op = Op(case.kind, size, case.dtype, "sum", count=len(inputs[0]))
    Cast(folder, size, range(size)).run(op, inputs, outputs)
    return [outputs[rank] for rank in range(size)]


def different(found: torch.Tensor, wanted: torch.Tensor) -> int:
    """How many elements have other bits."""
    return int((found.view(torch.uint8) != wanted.view(torch.uint8)).view(len(found), -1).any(1).sum())


@pytest.mark.parametrize("size", SIZES)
def test_the_order_of_the_ring_is_the_cpu_engines(size: int, tmp_path: Path) -> None:
    case = Case(OpKind.ALL_REDUCE, "bfloat16", 600)
    given = case.inputs(size)
    wanted = sums(case, given)
    assert [different(got, wanted) for got in on_the_cpu(tmp_path / "group", case, given)] == [0] * size


@pytest.mark.gpu
@pytest.mark.parametrize("size", SIZES)
def test_the_cpu_engine_has_the_bits_of_nccl(size: int, directory: Path, tmp_path: Path) -> None:
    found = real(directory, size)
    apart = {}
    for number, case in enumerate(CASES):
        given = case.inputs(size)
        engine, total = on_the_cpu(tmp_path / str(number), case, given), sums(case, given)
        for rank in range(size):
            assert different(engine[rank], result_of(case, total, rank)) == 0
            apart[case.name, rank] = different(engine[rank], found[rank][case.name])
    assert {of: number for of, number in apart.items() if number} == {}


@pytest.mark.gpu
@pytest.mark.skipif(library_path() is None, reason="prism.gpu._device is not built")
@pytest.mark.parametrize("size", SIZES)
def test_the_device_engine_has_the_bits_of_nccl(size: int, directory: Path) -> None:
    found = real(directory, size)[0]
    ended([process(directory, "device", 0, size, {**os.environ, "LD_PRELOAD": str(library_path())})])
    engine = torch.load(directory / f"device-{size}-0.pt")
    apart = {case.name: different(engine[case.name], found[case.name]) for case in CASES}
    assert {of: number for of, number in apart.items() if number} == {}
