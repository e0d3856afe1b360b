"""What a capture leaves in its folder: all results or some, and partial sums; and whether that is enough to go on."""

from __future__ import annotations

import functools
from pathlib import Path

import msgspec
import pytest
import torch

from prism import trace
from prism.core.calls import Ref
from prism.core.contribution import REDUCING, parts
from prism.core.graph import OpKind
from prism.core.record import PostStep, RankRecord
from prism.core.ring import chunks, order
from prism.folder import Folder
from prism.net.payloads import Library
from prism.progress import Captured, Done, Progress, digests
from prism.scenario import STAGES, Capture, Emulate, Scenario
from prism.stages.staging import kept, needed
from tests.programs.reductions import COUNTS, SIZE, inputs
from tests.running import Run, capture, predict, references, scenario

HERE = Path(__file__).parent
BIG = {"job_ddp": 1_000_000, "job_moe": 400_000, "job_pp": 500_000, "job_fsdp2": 2_000_000}
"""Bytes that a run of four ranks and three iterations records at least, if all is kept."""


def keeping(job: str, payloads: str) -> Scenario:
    return scenario(HERE / "jobs" / f"{job}.py", ("3",), world=4, capture=Capture(payloads=payloads))


def emulated(given: Scenario, **emulate: object) -> Scenario:
    """The scenario with all stages."""
    return msgspec.structs.replace(given, emulate=Emulate(**emulate), stages=STAGES)


def posts(folder: Path, rank: int) -> list[PostStep]:
    record = RankRecord.decode((folder / "record" / f"{rank}.msgpack").read_bytes())
    return [step for step in record.steps if isinstance(step, PostStep)]


def bytes_in(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def receives(step: PostStep, rank: int, ranks: tuple[int, ...]) -> bool:
    """Whether a call gives its rank anything."""
    call = step.call
    root = call.root >= 0 and ranks[call.root] == rank
    match call.kind:
        case OpKind.BARRIER:
            return False
        case OpKind.SEND_RECV:
            return not call.sends
        case OpKind.BROADCAST:
            return not root
        case OpKind.REDUCE | OpKind.GATHER:
            return root
        case _:
            return True


def test_every_result_that_a_rank_receives_is_in_its_record(tmp_path: Path) -> None:
    run = capture(scenario(HERE / "programs" / "collectives.py", world=4, slots=4), tmp_path / "out")
    assert run.graph is not None
    groups = {group.name: group.ranks for group in run.graph.groups}
    for rank in range(4):
        for step in posts(run.folder, rank):
            assert (step.result is not None) is receives(step, rank, groups[step.group]), step.told()
            assert step.dropped == 0


@pytest.mark.parametrize(("job", "payloads"), [*((job, "control") for job in BIG), ("job_moe", "none")])
def test_a_job_of_which_little_is_kept_is_captured_and_predicted_alike(job: str, payloads: str, tmp_path: Path) -> None:
    whole = capture(keeping(job, "all"), tmp_path / "whole")
    small = predict(keeping(job, payloads), tmp_path / "small")
    assert losses(small) == losses(whole), "capture itself has all results"
    assert (small.folder / "graph.prism").exists()
    count, everything = small.result.payloads, whole.result.payloads
    assert count is not None
    assert everything is not None
    assert everything.dropped_bytes == everything.synthesised_ops == 0
    assert everything.kept_bytes == count.kept_bytes + count.dropped_bytes
    assert count.synthesised_ops > 0
    assert bytes_in(whole.folder / "payloads") > BIG[job]
    assert bytes_in(small.folder / "payloads") < BIG[job] / 10
    assert small.result.iteration_ns_median is not None
    assert [warning.kind for warning in small.result.warnings if warning.kind != "crowded"] == ["synthesised"]


def losses(run: Run) -> list[list[float]]:
    """What each rank of a job printed during capture."""
    logs = [(run.folder / "ranks" / f"{rank}.log").read_text() for rank in range(run.result.world_size)]
    return [reference["loss"] for reference in references(logs)]


def test_the_graph_does_not_depend_on_what_is_kept(tmp_path: Path) -> None:
    contents = set[bytes]()
    for mode in ("all", "control", "none"):
        graph = capture(keeping("job_moe", mode), tmp_path / mode).graph
        assert graph is not None
        trace.write(tmp_path / "graph.prism", graph, "")
        contents.add((tmp_path / "graph.prism").read_bytes())
    assert len(contents) == 1


def test_objects_and_small_numbers_are_kept_as_they_steer_programs(tmp_path: Path) -> None:
    given = scenario(HERE / "cases" / "18_object_collectives.py", ("exact",), 4, capture=Capture(payloads="control"))
    run = predict(given, tmp_path / "out")
    assert run.result.payloads is not None
    assert run.result.payloads.kept_bytes > 0


@pytest.mark.parametrize("sandbox", [(0,), (1, 2)])
@pytest.mark.parametrize("contribution", REDUCING)
def test_a_capture_for_an_emulation_keeps_partial_sums(
    contribution: str, sandbox: tuple[int, ...], tmp_path: Path
) -> None:
    given = emulated(
        scenario(HERE / "programs" / "reductions.py", world=SIZE), sandbox=sandbox, contribution=contribution
    )
    run = capture(given, tmp_path / "out")
    library = Library(run.folder / "payloads")
    for number, (name, dtype, add) in enumerate(OPERATIONS):
        rows = inputs(name, dtype)
        for part in parts(contribution, sandbox, SIZE):
            for rank in sandbox if part.member < 0 else (part.member,):
                ref: Ref | None = getattr(posts(run.folder, rank)[number], part.field)
                assert ref is not None
                found = torch.frombuffer(library.read(ref), dtype=dtype)
                for owner, piece in pieces(name, rows[0]):
                    turns = order(owner, SIZE)
                    own = [turns[place] for place in part.places(owner, SIZE) if turns[place] not in part.left_out]
                    given_there = [rows[member][piece] for member in own] or [torch.zeros_like(found[piece])]
                    assert torch.equal(found[piece], functools.reduce(add, given_there))
    virtual = set(range(SIZE)) - set(sandbox)
    assert all((step.before, step.after, step.rest) == (None,) * 3 for r in virtual for step in posts(run.folder, r))


OPERATIONS = [
    ("all_reduce", torch.float32, torch.add),
    ("all_reduce", torch.bfloat16, torch.maximum),
    ("reduce", torch.float64, torch.add),
    ("reduce_scatter", torch.float32, torch.add),
]


def pieces(name: str, row: torch.Tensor) -> list[tuple[int, slice]]:
    """The owners of an operation's elements."""
    if name == "reduce":
        return [(1, slice(None))]
    if name == "reduce_scatter":
        width = COUNTS[name] // SIZE
        return [(owner, slice(owner * width, (owner + 1) * width)) for owner in range(SIZE)]
    return [(owner, slice(start, stop)) for start, stop, owner in chunks(row.numel(), row.element_size(), SIZE)]


# -- going on with it --------------------------------------------------------------------------------------------------


@pytest.fixture
def job(tmp_path: Path) -> Scenario:
    (tmp_path / "train.py").touch()
    return scenario(tmp_path / "train.py", world=4)


def done_before(given: Scenario, again: Scenario, tmp_path: Path) -> bool:
    """Whether a capture of one scenario serves another."""
    folder = Folder(tmp_path / "out")
    folder.begin(resume=True)
    stages = {"capture": Done(digest=digests(given, "2.13")["capture"], wall_s=1)}
    folder.save_progress(Progress(stages=stages, captured=Captured(switches=0, ranks=[], kept=kept(given))))
    folder.release()
    return "capture" in folder.progress(digests(again, "2.13"), needed(again)).stages


def test_without_an_emulation_its_settings_leave_a_capture_done(job: Scenario, tmp_path: Path) -> None:
    assert done_before(job, msgspec.structs.replace(job, emulate=Emulate(sandbox=(3,))), tmp_path)


@pytest.mark.parametrize(
    ("before", "after", "serves"),
    [
        ({}, {}, True),
        ({"sandbox": (1, 2)}, {"sandbox": (2, 1)}, True),
        ({}, {"pool": 1 << 20, "iterations": 3}, True),
        ({}, {"sandbox": (1,)}, False),
        ({}, {"contribution": "exact"}, False),
        ({}, {"contribution": "zeros", "sandbox": (1,)}, True),
        ({"contribution": "replicas"}, {"contribution": "zeros", "sandbox": (1,)}, True),
        ({"contribution": "replicas"}, {}, False),
    ],
)
def test_an_emulation_goes_on_with_a_capture_that_has_what_it_needs(
    job: Scenario, tmp_path: Path, before: dict[str, object], after: dict[str, object], serves: bool
) -> None:
    given, again = (emulated(job, **emulate) for emulate in (before, after))
    assert done_before(given, again, tmp_path) is serves


def test_a_capture_for_an_emulation_serves_without_one_and_not_the_other_way(job: Scenario, tmp_path: Path) -> None:
    assert done_before(emulated(job), job, tmp_path)
    assert not done_before(job, emulated(job), tmp_path)


def test_other_payloads_are_another_capture(job: Scenario, tmp_path: Path) -> None:
    assert not done_before(job, msgspec.structs.replace(job, capture=Capture(payloads="control")), tmp_path)


def test_a_capture_alone_keeps_what_an_emulation_needs_that_the_file_names(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    file = tmp_path / "scenario.yaml"
    text = "prism: 1\nname: job\nprogram: {script: train.py}\nworld: {size: 4}\nemulate: {sandbox: [1]}\n"
    first, later = ("stages=[capture]",), ("stages=[calibrate, emulate]",)
    file.write_text(f"{text}stages: [capture, calibrate, emulate]\n")
    assert done_before(Scenario.load(file, first), Scenario.load(file, later), tmp_path / "named")
    assert done_before(Scenario.load(file, first), Scenario.load(file, ("stages=[replay]",)), tmp_path / "not needed")
    file.write_text(text)
    assert not done_before(Scenario.load(file, first), Scenario.load(file, later), tmp_path / "not named")
