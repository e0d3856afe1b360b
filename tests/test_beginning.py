"""`--init`: the first scenario of a program, after a probe."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from prism.command.beginning.launch_line import read_launch_line
from prism.command.hints import WANTS_CUDA
from prism.command.main import main
from prism.errors import ScenarioError
from prism.scenario import Scenario
from tests.running import capture

PROGRAMS = Path(__file__).with_name("programs")


def test_a_scenario_is_written_that_runs_what_was_probed(tmp_path: Path) -> None:
    path = tmp_path / "first.yaml"
    script = PROGRAMS / "averages.py"
    assert main(["--init", str(script), "--out", str(path), "--set", "world.size=3", "-q", "--", "4"]) == 0
    scenario = Scenario.load(path)
    assert scenario.script is not None
    assert scenario.script.resolve() == script
    assert scenario.program.args == ("4",)
    assert scenario.world.size == 3
    assert "a guess" not in path.read_text()
    assert "Process groups: 1 with 3 ranks" in path.read_text()
    assert (scenario.capture.iterations, scenario.calibrate.warmup) == (6, 2)


def test_a_program_with_few_iterations_gets_a_shorter_warm_up_and_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "first.yaml"
    assert main(["--init", str(PROGRAMS / "averages.py"), "--out", str(path), "-q", "--", "3"]) == 0
    told = "rogram ends after 3 iterations, the first of which are slow: 2 remain after a warm-up of 1"
    assert told in capsys.readouterr().err
    assert told in path.read_text()
    scenario = Scenario.load(path)
    assert (scenario.capture.iterations, scenario.calibrate.warmup) == (None, 1)


def test_the_marker_that_is_proposed_for_a_module_is_found_in_it(tmp_path: Path) -> None:
    path = tmp_path / "first.yaml"
    line = ["--nproc-per-node", "2", "-m", "tests.programs.packed"]
    assert main(["--init", "torchrun", "--out", str(path), "-q", "--", *line]) == 0
    (marker,) = re.findall(r"# iteration: {marker: (\S+)}", path.read_text())
    job = Scenario.load(path, ["iteration.marker=" + marker.replace(":step", ":make_a_step")])
    assert [rank.iterations for rank in capture(job, tmp_path / "out").result.ranks] == [4, 4]


def test_a_program_that_fails_gets_one_that_says_how(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "first.yaml"
    assert main(["--init", str(PROGRAMS / "raises.py"), "--out", str(path), "-q", "--set", "world.size=3"]) == 3
    assert "# The probe FAILED, rank_failed:" in path.read_text()
    assert "the probe failed" in capsys.readouterr().err
    Scenario.load(path)


def test_a_program_that_wants_a_gpu_gets_one_presented(tmp_path: Path) -> None:
    path = tmp_path / "first.yaml"
    assert main(["--init", str(PROGRAMS / "presented_training.py"), "--out", str(path), "-q"]) == 0
    scenario = Scenario.load(path)
    assert scenario.devices.present_as == "H100"
    assert "size: 2                        # a guess" in path.read_text()


@pytest.mark.parametrize(
    "message",
    [
        "AssertionError: Torch not compiled with CUDA enabled",
        "AttributeError: module 'torch._C' has no attribute '_cuda_setDevice'",
        "RuntimeError: Found no NVIDIA driver on your system.",
        "RuntimeError: No CUDA GPUs are available",
    ],
)
def test_what_torch_says_without_a_gpu_is_known(message: str) -> None:
    assert WANTS_CUDA.search(message)


def test_torchrun_lines_are_understood() -> None:
    script = str(PROGRAMS / "averages.py")
    line = read_launch_line("torchrun", ["--nnodes", "2", "--nproc-per-node", "8", script, "--lr", "1"])
    assert (line.script, line.args, line.size, line.ranks_per_node) == (script, ("--lr", "1"), 16, 8)
    line = read_launch_line("torchrun", ["--nnodes=1:4", "--nproc_per_node=2", "-m", "package.train", "x"])
    assert (line.module, line.args, line.size, line.name) == ("package.train", ("x",), 8, "train")


def test_the_lines_of_launchers_of_clusters_are_understood() -> None:
    script = str(PROGRAMS / "averages.py")
    rendezvous = ["--rdzv-id", "job", "--rdzv-backend", "c10d", "--rdzv-endpoint", "host0:29400", "--max-restarts", "0"]
    trainer = [
        "--model_name_or_path",
        "gpt2",
        "--do_train",
        "--fsdp",
        "full_shard",
        "--bf16",
        "True",
        "--max_steps",
        "4",
    ]
    line = read_launch_line("torchrun", ["--nnodes=2", "--nproc_per_node=4", *rendezvous, script, *trainer])
    assert (line.size, line.ranks_per_node, line.args) == (8, 4, tuple(trainer))
    old = ["--nproc_per_node=2", "--node_rank=0", "--master_addr=localhost", "--master_port=1234", script]
    assert read_launch_line("torchrun", old).size == 2


@pytest.mark.parametrize(
    ("target", "rest", "words"),
    [
        ("accelerate", ["launch", "train.py"], "--init accelerate: write it as torchrun's line: .*program.env"),
        ("missing.py", [], "--init missing.py: no such file"),
        ("torchrun", ["--nproc-per-node", "gpu", "train.py"], "write both as numbers"),
        ("torchrun", ["--no-such-flag"], "torchrun does not take these arguments"),
        ("torchrun", ["--nnodes"], "torchrun does not take these arguments"),
        ("torchrun", ["--nproc-per-node", "2", "missing.py"], "missing.py: no such file"),
    ],
)
def test_what_cannot_be_is_refused(target: str, rest: list[str], words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        read_launch_line(target, rest)


def test_a_file_that_is_there_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "first.yaml"
    path.write_text("mine")
    assert main(["--init", str(PROGRAMS / "averages.py"), "--out", str(path)]) == 2
    assert "exists; --out names another file" in capsys.readouterr().err
    assert path.read_text() == "mine"


def test_a_program_in_the_place_of_a_scenario_leads_to_init(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train.py"]) == 2
    assert "train.py is a program; --init train.py writes a scenario for it" in capsys.readouterr().err


def test_arguments_of_a_program_belong_to_init(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario.yaml", "--", "4"]) == 2
    assert "belong to --init" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--init", "torchrun", "--nproc-per-node", "2", "train.py"], "--nproc-per-node stands before `--`"),
        (["--init", "train.py", "4"], "4 stands before `--`"),
        (["job.yaml", "--", "4"], "belong to --init"),
        (["job.yaml", "--wrong"], "unrecognized arguments: --wrong; see --help"),
        (["job.yaml", "--set", "what_if=[{name:", "x}]"], "x}]; quote a value of --set that has spaces"),
    ],
)
def test_what_stands_in_the_wrong_place_is_said(
    given: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(given) == 2
    assert words in capsys.readouterr().err
