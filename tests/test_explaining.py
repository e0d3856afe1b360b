"""`--explain`: what each stage will do, and nothing is run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from prism.command.explaining import explain
from prism.command.main import main
from prism.folder import Folder
from prism.progress import Progress
from prism.scenario import Calibrate, Capture, Devices, Emulate, Fold, Program, Replicas, Scenario, Slow, WhatIf, World

AVERAGES = Path(__file__).with_name("programs") / "averages.py"
QUICKSTART = Path(__file__).parent.parent / "scenarios" / "quickstart.yaml"


def explained(**blocks: Any) -> str:
    given = {"world": World(size=16), **blocks}
    scenario = Scenario(name="job", program=Program(module="train"), **given)
    return "\n".join(explain(scenario, Folder(Path("runs/job")), Progress(), Progress()).lines())


def test_it_says_what_runs_and_how_often(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main([str(QUICKSTART), "--explain", "--out", str(tmp_path / "out")]) == 0
    told = capsys.readouterr().out
    assert "quickstart: workloads/moe_pipeline.py as 8 ranks on 2 nodes of 4" in told
    assert "runs all 8 ranks, 2 at one time, each to its program's end" in told
    assert "in 4 slices of up to 2" in told
    assert "what if half-network: network" in told
    assert not (tmp_path / "out").exists(), "nothing is run"


def test_it_says_what_has_been_done_and_what_that_took(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = f"prism: 1\nname: job\nprogram: {{script: {AVERAGES}, args: ['3']}}\nworld: {{size: 2}}\nstages: [capture]\n"
    (tmp_path / "job.yaml").write_text(text)
    command = [str(tmp_path / "job.yaml"), "-q", "--out", str(tmp_path / "out")]
    assert main(command) == 0
    assert main([*command, "--explain"]) == 0
    told = capsys.readouterr().out
    assert re.search(r"was done in \d+\.\d s, and is used again with --resume", told)
    assert "the capture in the folder saw a peak of" in told
    (tmp_path / "job.yaml").write_text(text.replace("size: 2", "size: 3"))
    assert main([*command, "--explain"]) == 0
    assert re.search(r"was done in \d+\.\d s; something has changed since", capsys.readouterr().out)


def test_programs_can_read_it_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main([str(QUICKSTART), "--explain", "--json", "--out", str(tmp_path / "out")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["scenario"], told["ranks"], told["nodes"]) == ("quickstart", 8, 2)
    assert [plan["stage"] for plan in told["stages"]] == ["capture", "calibrate", "replay"]
    assert all(plan["does"] and plan["took_s"] is None and not plan["reused"] for plan in told["stages"])


def test_it_says_what_is_other_than_usual() -> None:
    told = explained(
        devices=Devices(kind="cpu", slots=4, memory=80 << 30, present_as="H100"),
        capture=Capture(iterations=5),
        emulate=Emulate(sandbox=(3, 4, 5), contribution="exact"),
        what_if=(WhatIf(name="hot", slow=Slow(ranks=(1,), factor=1.2)), WhatIf(name="more", replicas=doubled())),
        stages=("capture", "calibrate", "replay", "emulate"),
    )
    assert "each to 5 iterations" in told
    assert "told that it has an H100" in told
    assert "holds more than 80.0 GiB" in told
    assert "runs ranks 3-5 in wall time" in told
    assert "what they put in: exact" in told
    assert "what if more: replicas" in told


def test_of_a_folded_job_it_says_who_runs() -> None:
    told = explained(fold=Fold(mesh={"pp": 2, "dp": 8}, over=("dp",)))
    assert "runs 2 ranks, one of each class of 8, 2 at one time" in told
    assert "times the ranks that ran, 2 at one time, each alone" in told
    assert "runs one rank, for all of 16, 2 at" in explained(fold=Fold(mesh={"dp": 16}, over=("dp",)))


def test_a_world_that_no_machine_holds_is_explained_without_its_ranks_being_listed() -> None:
    world = World(size=100_000_000)
    assert "in 50,000,000 slices of up to 2" in explained(world=world)
    assert "in 12,500,000 slices of up to 8" in explained(world=world, calibrate=Calibrate(slice="node"))
    assert "in one slice" in explained(world=World(size=2), calibrate=Calibrate(slice=8))
    assert "in 2 slices of up to 3" in explained(world=World(size=4), calibrate=Calibrate(slice=((0,), (1, 2, 3))))
    folded = explained(world=world, fold=Fold(mesh={"pp": 2, "dp": 50_000_000}, over=("dp",), verify=1))
    assert "runs 2 ranks, one of each class of 50,000,000" in folded


def doubled() -> Replicas:
    return Replicas(mesh={"dp": 4, "tp": 4}, over="dp", to=8)
