"""Programs that hard-code CUDA and NCCL, on a machine without a GPU: they run, and their numbers are the same again."""

from __future__ import annotations

import importlib.util
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from running import Run, capture, emulate, scenario

from prism.core.devices import MODELS, Model
from prism.core.graph import NodeKind, OpKind
from prism.scenario import Calibrate, Capture, Devices, Emulate

PROGRAMS = Path(__file__).parent / "programs"
MEGATRON = Path(__file__).parent / "jobs" / "job_megatron.py"


def test_the_scenario_offers_all_models() -> None:
    assert get_args(Model) == tuple(MODELS)


def run(
    program: Path, out: Path, args: tuple[str, ...] = (), world: int = 2, slots: int = 2, model: Any = "cuda"
) -> Run:
    """A capture under NCCL's rules, as the program asks for it."""
    devices = Devices(kind="cpu", slots=slots, present_as=model)
    given = scenario(program, args, world=world, devices=devices, semantics="auto")
    done = capture(given, out)
    assert done.result.status == "ok", (done.result.diagnosis, done.output)
    return done


def lines(done: Run, *beginnings: str) -> list[list[str]]:
    """The lines that begin so, by rank."""
    return [[line for line in text.splitlines() if line.startswith(beginnings)] for text in done.output]


def test_a_program_waits_for_what_another_stream_has_waited_for_where_its_own_waits_for_that(tmp_path: Path) -> None:
    given = scenario(
        PROGRAMS / "sharded_on_gpu.py", ("3",), 2, semantics="auto", capture=Capture(payloads="all"),
        calibrate=Calibrate(warmup=1), emulate=Emulate(sandbox=(0,)), devices=Devices(present_as="cuda", slots=2),
        stages=("capture", "calibrate", "replay", "emulate"),
    )  # fmt: skip
    done = emulate(given, tmp_path / "out")
    assert (done.result.status, done.result.diagnosis) == ("ok", None)
    graph = done.graph
    assert graph is not None
    rank = graph.nodes[: graph.lane_ptr[1]]
    last = rank[np.flatnonzero(rank["kind"] == NodeKind.MARK)[-2] :]
    steps = last[last["kind"] != NodeKind.COMPUTE]
    gathers = graph.ops["kind"] == OpKind.ALL_GATHER
    ahead = [  # posted while another one is under way, and waited for later
        first["ref"] for first, second in pairwise(steps)
        if first["kind"] == NodeKind.POST == second["kind"] and gathers[first["ref"]] != gathers[second["ref"]]
    ]  # fmt: skip
    assert ahead
    assert sorted(graph.wait_ops.tolist()) == sorted(2 * [*range(len(graph.ops))])  # each once, on either rank
    captured = [line for line in (tmp_path / "out" / "ranks" / "0.log").read_text().splitlines() if "loss" in line]
    assert lines(done, "loss") == [captured]
    assert len(captured) == 3


def test_what_needs_a_gpu_says_so(tmp_path: Path) -> None:
    (printed,) = lines(run(PROGRAMS / "presented_refusals.py", tmp_path, world=1), "refused", "undecided")
    refused = dict(line.removeprefix("refused ").split(": ", 1) for line in printed)
    assert list(refused) == ["graph", "capture", "kernel", "pool", "handle", "power", "replicas", "device"]
    assert "invalid device ordinal 1" in refused.pop("device")
    features = ("torch.cuda.CUDAGraph", "torch.cuda.graph", "triton", "torch.cuda.MemPool")
    features += ("torch.cuda.get_device_handle", "torch.cuda.power_draw", "torch.nn.parallel.comm.scatter")
    for text, feature in zip(refused.values(), features, strict=True):
        assert text.startswith(f"{feature} needs a real GPU")
        assert text.endswith("`devices.present_as: null`")


def test_tensors_streams_and_random_numbers_are_those_of_a_gpu(tmp_path: Path) -> None:
    (printed,) = lines(run(PROGRAMS / "presented_tensors.py", tmp_path, world=1), "holds")
    assert len(printed) == 7


@pytest.mark.slow
@pytest.mark.parametrize("model", ["A100", "H200"])
def test_training_finds_the_gpu_that_it_was_promised(model: str, tmp_path: Path) -> None:
    done = run(PROGRAMS / "presented_training.py", tmp_path, model=model)
    gpu = MODELS[model]
    for printed in lines(done, "gpu", "loss"):
        assert len(printed) == 4
        assert printed[-1] == f"gpu {gpu.name} {gpu.capability} nccl"


def test_peak_memory_is_what_the_program_sees(tmp_path: Path) -> None:
    done = run(PROGRAMS / "presented_training.py", tmp_path)
    seen = [int(peak.split()[1]) for (peak,) in lines(done, "peak")]
    assert seen == [rank.peak_bytes for rank in done.result.ranks]
    assert min(seen) > 0


@pytest.mark.slow
@pytest.mark.parametrize("program", ["presented_training", "presented_shards", "presented_stages"])
def test_losses_are_the_same_again_and_with_other_slots(program: str, tmp_path: Path) -> None:
    first, again, alone = (
        lines(run(PROGRAMS / f"{program}.py", tmp_path / name, slots=slots), "loss")
        for name, slots in (("first", 2), ("again", 2), ("alone", 1))
    )
    assert all(len(printed) == 3 for printed in first)
    assert first == again == alone


@pytest.mark.slow
def test_groups_have_nccls_rules(tmp_path: Path) -> None:
    done = run(PROGRAMS / "presented_shards.py", tmp_path)
    assert done.graph is not None
    assert {group.backend for group in done.graph.groups} == {"nccl"}


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("megatron") is None,
    reason="megatron-core is not installed (pip install --no-deps megatron-core==0.16.1; pip install einops packaging)",
)
@pytest.mark.parametrize(
    ("world", "layout"), [(2, "1 1 2 0"), (4, "1 2 2 2"), (8, "2 2 2 2")], ids=["ep2", "pp2-ep2", "tp2-pp2-ep2"]
)
def test_megatron_trains_and_does_it_again(world: int, layout: str, tmp_path: Path) -> None:
    first, again, alone = (
        lines(run(MEGATRON, tmp_path / name, tuple(layout.split()), world, slots), "rank", "done")
        for name, slots in (("first", 2), ("again", 2), ("alone", 1))
    )
    assert [printed[-1] for printed in first] == [f"done {rank}" for rank in range(world)]
    assert sum(len(printed) for printed in first) > world, "no rank printed a loss"
    assert first == again == alone
