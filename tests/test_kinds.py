"""Which kind of device a scenario runs on, and what is said where it is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from prism.command.main import main
from prism.errors import RunError, ScenarioError
from prism.gpu.cuda import nvml
from prism.scenario import STAGES, Calibrate, Devices, Emulate, Fold, Launcher, Network, Scenario
from prism.stages import kinds
from tests.running import scenario

PROGRAM = Path(__file__).with_name("programs") / "averages.py"


def on(kind: str, **blocks: object) -> Scenario:
    return scenario(PROGRAM, devices=Devices(kind=kind), **blocks)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "gpus", lambda: 1)
    monkeypatch.setattr(kinds, "built_for_cuda", lambda: True)


@pytest.mark.usefixtures("gpu")
class TestWithAGpu:
    def test_auto_takes_it(self) -> None:
        assert kinds.device_kind(on("auto")) == "cuda"
        assert kinds.device_kind(on("cpu")) == "cpu"

    def test_auto_leaves_it_where_only_a_cpu_can_do_what_is_asked(self) -> None:
        blocks = {"launcher": Launcher(workers=2)}
        assert kinds.device_kind(on("auto", **blocks)) == "cpu"
        with pytest.raises(ScenarioError, match=r"devices\.kind cuda is not available yet for several"):
            on("cuda", **blocks)

    @pytest.mark.parametrize(
        ("blocks", "told"),
        [
            ({"network": Network(algorithm="tree")}, "algorithm tree is not emulated on a GPU yet, only ring is"),
            ({"emulate": Emulate(sandbox=(0, 1), contribution="replicas")}, "replicas is available on a GPU for one"),
        ],
    )
    def test_what_of_an_emulation_is_left_to_a_cpu(
        self, blocks: dict[str, object], told: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(kinds, "library_path", lambda: Path("_device.so"))
        assert kinds.device_kind(on("auto", stages=STAGES, **blocks)) == "cpu"
        with pytest.raises(ScenarioError, match=f"{told}.*; choose cpu for it"):
            kinds.check_device(on("cuda", stages=STAGES, **blocks))

    def test_what_a_gpu_can_do_as_well(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kinds, "library_path", lambda: Path("_device.so"))
        blocks = {"fold": Fold(mesh={"dp": 2}, over=("dp",)), "emulate": Emulate(contribution="replicas")}
        assert kinds.device_kind(on("auto", stages=STAGES, **blocks)) == "cuda"
        kinds.check_device(on("cuda", stages=STAGES, **blocks))

    @pytest.mark.parametrize("blocks", [{"stages": STAGES}, {"calibrate": Calibrate(answers="paced")}])
    def test_a_sandbox_needs_an_extension(self, blocks: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kinds, "library_path", lambda: None)
        assert kinds.device_kind(on("auto", **blocks)) == "cpu"
        with pytest.raises(RunError, match=r"prism.gpu._device, which was not built; run `make ext` where nvcc"):
            kinds.check_device(on("cuda", **blocks))
        monkeypatch.setattr(kinds, "library_path", lambda: Path("_device.so"))
        assert kinds.device_kind(on("auto", **blocks)) == "cuda"
        kinds.check_device(on("cuda", **blocks))

    def test_answers_need_none_where_nothing_is_calibrated(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kinds, "library_path", lambda: None)
        kinds.check_device(on("cuda", stages=("capture",), calibrate=Calibrate(answers="paced")))

    def test_paced_answers_along_trees_are_left_to_a_cpu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kinds, "library_path", lambda: Path("_device.so"))
        blocks = {"calibrate": Calibrate(answers="paced"), "network": Network(algorithm="auto")}
        assert kinds.device_kind(on("auto", **blocks)) == "cpu"
        with pytest.raises(ScenarioError, match="algorithm auto is not emulated on a GPU yet, only ring is"):
            kinds.check_device(on("cuda", **blocks))

    def test_ranks_are_timed_one_by_one_unless_slices_are_given(self) -> None:
        assert kinds.timed_apart(on("auto")).slices() == ((0,), (1,))
        assert kinds.timed_apart(on("auto", calibrate=Calibrate(slice=2))).slices() == ((0, 1),)
        assert kinds.timed_apart(on("cpu")).slices() == ((0, 1),)

    def test_a_torch_for_cpus_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kinds, "built_for_cuda", lambda: False)
        assert kinds.device_kind(on("auto")) == "cpu"
        with pytest.raises(RunError, match="not built for CUDA"):
            kinds.check_device(on("cuda"))


def test_without_a_gpu_the_command_ends_with_4(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    path = tmp_path / "one.yaml"
    path.write_text(f"prism: 1\nname: one\nprogram: {{script: {PROGRAM}}}\nworld: {{size: 2}}\n")
    assert main([str(path), "--set", "devices.kind=cuda", "--out", str(tmp_path / "out"), "-q"]) == 4
    assert "there is no device: devices.kind is cuda" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "seen"),
    [(None, [0, 1]), ("", []), ("1", [1]), ("1,0", [1, 0]), ("0,7,1", [0]), ("-1", []), ("GPU-8a,1", [-1, 1])],
)
def test_what_a_process_sees_is_what_cuda_would_show_it(
    value: str | None, seen: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml, "count", lambda: 2)
    assert nvml.visible({} if value is None else {"CUDA_VISIBLE_DEVICES": value}) == seen
