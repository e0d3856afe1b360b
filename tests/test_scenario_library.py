"""The scenario library: each scenario answers as the file beside it expects, and the scripts find what they are for."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import numpy as np
import pytest
import yaml

from prism import trace
from prism.command.main import main
from prism.coordinator import Coordinator
from prism.core.graph import NodeKind
from prism.core.timeline.analysis import analyse
from prism.core.timeline.replay import evaluate, make_plan
from prism.core.what_if.microbatches import with_micro_batches
from prism.crew import Crew
from prism.errors import ProgramError
from prism.result import Result
from prism.scenario import Scenario
from tests.running import on_the_bench

SCENARIOS = Path(__file__).parents[1] / "scenarios"
NAMES = sorted(
    path.name.removesuffix(".expected.yaml")
    for path in SCENARIOS.glob("*.expected.yaml")
    if path.name != "quickstart.expected.yaml"  # tests/test_quickstart.py runs it, through the command
)


@dataclass(frozen=True)
class Ran:
    """One run of a scenario, and what is expected of it."""

    out: Path
    code: int
    result: Result
    expected: dict[str, Any]

    def slowdown(self, variant: str) -> float:
        """Of the variant with this name."""
        (found,) = (row.slowdown for row in self.result.what_if if row.name == variant)
        assert found is not None
        return found


class Library:
    """Runs each scenario when it is first asked for, all on one crew."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ran: dict[str, Ran] = {}

    def run(self, name: str) -> Ran:
        """The run of a scenario."""
        if name not in self._ran:
            scenario, out = Scenario.load(SCENARIOS / f"{name}.yaml"), self._folder / name
            code = on_the_bench(lambda crew: _gone_through(scenario, out, crew))
            expected = yaml.safe_load((SCENARIOS / f"{name}.expected.yaml").read_text())
            self._ran[name] = Ran(out, code, Result.load(out / "result.json"), expected)
        return self._ran[name]


async def _gone_through(scenario: Scenario, out: Path, crew: Crew) -> int:
    """All stages of a scenario; the exit code that the command would have."""
    try:
        async with Coordinator(scenario, out, crew=crew) as run:
            graph = await run.capture()
            if "replay" in scenario.stages:
                graph = await run.calibrate(graph)
                run.replay(graph)
            if "emulate" in scenario.stages:
                await run.emulate(graph)
    except ProgramError as error:
        return error.exit_code
    return 0


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return Library(tmp_path_factory.mktemp("library"))


def expecting(key: str) -> list[Any]:
    """The scenarios whose expected files have this key; those that are slow are marked so."""
    expected = {name: yaml.safe_load((SCENARIOS / f"{name}.expected.yaml").read_text()) for name in NAMES}
    return [
        pytest.param(name, marks=[pytest.mark.slow] if one.get("slow") else [])
        for name, one in expected.items()
        if key in one
    ]


def test_every_scenario_says_what_it_gives() -> None:
    scenarios = {path.stem for path in SCENARIOS.glob("*.yaml")} - {f"{name}.expected" for name in NAMES}
    assert scenarios - {"quickstart.expected"} == {*NAMES, "quickstart"}


@pytest.mark.parametrize("name", expecting("exit"))
def test_it_ends_as_expected(name: str, library: Library) -> None:
    ran = library.run(name)
    result = ran.result
    found = {
        "exit": ran.code,
        "status": result.status,
        "stages": {stage: one.status for stage, one in result.stages.items()},
        "world_size": result.world_size,
        "iterations": max(rank.iterations for rank in result.ranks),
        "ops": result.ops,
        "what_if": [variant.name for variant in result.what_if],
        "fold": result.fold and {"ran": len(result.fold.ran), "verified": len(result.fold.verified)},
    }
    assert found == {**found, **{key: ran.expected[key] for key in found if key in ran.expected}}
    assert bool(found["what_if"]) == ("what_if" in ran.expected)


@pytest.mark.parametrize("name", expecting("diagnosis"))
def test_the_diagnosis_names_ranks_and_lines(name: str, library: Library) -> None:
    ran = library.run(name)
    found, expected = ran.result.diagnosis, ran.expected["diagnosis"]
    assert found is not None
    assert found.kind == expected["kind"]
    blamed = [rank for rank in found.ranks if rank.traceback or rank.rank in (found.cycle or [])]
    assert blamed
    assert {rank.rank for rank in blamed} <= set(expected["ranks"])
    assert {(rank.callsite or "").partition(":")[0] for rank in blamed} == {expected["file"]}
    assert expected["file"] in found.summary


@pytest.mark.parametrize("name", expecting("slower"))
def test_each_variant_is_slower_than_the_one_before(name: str, library: Library) -> None:
    ran = library.run(name)
    for names in ran.expected["slower"]:
        assert all(one < other for one, other in pairwise(map(ran.slowdown, names))), names


@pytest.mark.parametrize("name", expecting("not_faster"))
def test_no_variant_is_faster_than_the_one_before(name: str, library: Library) -> None:
    """Within 10 %: a median of few iterations, and what is asked may fall to a rank that has time to spare."""
    ran = library.run(name)
    for names in ran.expected["not_faster"]:
        assert all(0.9 * one <= other for one, other in pairwise(map(ran.slowdown, names))), names


def test_the_deadlock_is_one_of_the_rings(library: Library) -> None:
    ran = library.run("find_the_deadlock")
    found = ran.result.diagnosis
    assert found is not None
    cycle = sorted(found.cycle or [])
    ((op, callsite),) = {(rank.op, rank.callsite) for rank in found.ranks if rank.rank in cycle}
    assert {"ranks": cycle, "op": op, "callsite": callsite} in ran.expected["cycles"]


@pytest.mark.parametrize("name", expecting("emulation"))
def test_the_sandbox_rank_does_what_it_did_in_the_capture(name: str, library: Library) -> None:
    ran = library.run(name)
    found, expected = ran.result.emulation, ran.expected["emulation"]
    assert found is not None
    assert {
        "sandbox": found.sandbox,
        "iterations": len(found.ranks[0].iteration_ns),
        "contribution": found.contribution,
        "groups": found.groups,
        "ops": found.ops,
    } == expected
    for log in ("4.log", "4.emulate.log"):
        printed = re.findall(r"^iteration \d+: loss ([\d.]+)$", (ran.out / "ranks" / log).read_text(), re.MULTILINE)
        assert [float(loss) for loss in printed] == pytest.approx(ran.expected["losses"], abs=1e-3)


def test_the_command_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(SCENARIOS / "find_the_deadlock.yaml"), "--out", str(tmp_path / "out"), "-q"]) == 3
    told = capsys.readouterr().out
    assert re.search(r"deadlock: rank [01] waits in (send|recv) .* at ring_attention\.py:3[36]", told)
    assert re.search(r"cycle: ranks (0, 2, 4, 6|1, 3, 5, 7) wait for each other", told)


def test_the_peak_that_did_not_fit_is_accounted_for(library: Library) -> None:
    ran = library.run("will_it_fit")
    known = [rank for rank in ran.result.ranks if rank.peak_breakdown is not None]
    assert known
    for rank in known:
        parts = msgspec.to_builtins(rank.peak_breakdown)
        assert [name for name, nbytes in parts.items() if nbytes > 0] == ran.expected["parts"]
        assert sum(parts.values()) == rank.peak_bytes
        assert parts["activations"] > parts["optimizer"] > parts["parameters"]


def test_the_report_shows_how_memory_ran_out_and_where(library: Library) -> None:
    page = (library.run("will_it_fit").out / "report.html").read_text()
    assert '<path class="cap"' in page
    assert re.search(r"rank \d: at most 79\.\d MiB, after \d+ operations", page)
    assert "loss = F.cross_entropy(model(tokens[:, :-1])" in page


def test_the_bottleneck_is_the_stage_with_the_head(library: Library) -> None:
    ran = library.run("bottleneck_stage")
    assert min(ran.expected["what_if"], key=ran.slowdown) == ran.expected["fastest"]
    compute, critical = [rank.compute_ns or 0 for rank in ran.result.ranks], [0] * 8
    for step in ran.result.critical_path:
        critical[step.rank] += step.ns
    stages = [[rank, rank + 1] for rank in range(0, 8, 2)]
    for times in (compute, critical):
        assert max(stages, key=lambda stage: sum(times[rank] for rank in stage)) == ran.expected["busiest_stage"]


def test_more_micro_batches_share_the_bubble(library: Library) -> None:
    """On the run's graph, with steps that take alike: what was timed says how busy the machine was."""
    ran = library.run("micro_batches")
    assert ran.slowdown("micro-batches to=8") == 1
    captured, each = trace.read(ran.out / "graph.prism").graph, []
    for number in (int(name.rpartition("=")[2]) for name in ran.expected["what_if"]):
        graph = with_micro_batches(captured, 8, number)
        alike = np.where(graph.nodes["kind"] == NodeKind.COMPUTE, 1_000_000, 0)
        timeline = evaluate(make_plan(graph), alike, np.zeros(len(graph.ops), np.int64))
        each.append(analyse(graph, timeline, warmup=1).iteration_ns[0] / number)
    assert all(many < few for few, many in pairwise(each))


def script(name: str) -> ModuleType:
    """A script of the library, as a module."""
    spec = importlib.util.spec_from_file_location(name, SCENARIOS / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_largest_batch_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    found = script("largest_batch").main([str(SCENARIOS / "will_it_fit.yaml"), "--memory", "35MiB", "--most", "4"])
    told = capsys.readouterr().out.splitlines()
    assert found == 3
    assert [line.split(",")[0] for line in told[:-1]] == [
        "batch    1: fits",
        "batch    2: fits",
        "batch    4: does not fit",
        "batch    3: fits",
    ]
    assert told[-1] == "the largest batch that fits 35.0 MiB: 3"


def test_the_straggler_budget_is_smallest_on_the_bottleneck(library: Library) -> None:
    ran = library.run("bottleneck_stage")  # its capture and calibration are used again
    found = script("straggler_budget").main(
        [str(SCENARIOS / "bottleneck_stage.yaml"), "--out", str(ran.out), "--steps", "8"]
    )
    assert sorted(found) == list(range(8))
    assert min(found, key=found.get) in ran.expected["busiest_stage"]
    assert min(found.values()) >= 1


def test_the_readme_has_them_all_and_the_documentation_what_it_says() -> None:
    told = (SCENARIOS / "README.md").read_text()
    page = (SCENARIOS.parent / "docs" / "scenarios.md").read_text().splitlines()
    assert [line for line in told.splitlines() if line.startswith("|") and line not in page] == []
    scripts = [path.name for path in (SCENARIOS / "scripts").glob("*.py")]
    assert [name for name in [*(f"{name}.yaml" for name in NAMES), *scripts] if name not in told] == []
