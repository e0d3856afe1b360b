"""What of a run is finished: its stages, what each depends on, and what it found besides its files."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec

from prism.core.diagnosis import Warning
from prism.core.stage.kept import EVERYTHING, Kept, PayloadCount
from prism.core.stage.residency import ResidencyCount
from prism.errors import ScenarioError
from prism.result import CalibrationResult, EmulationResult, FoldResult, RankResult, Result
from prism.scenario import STAGES, Scenario


class Captured(msgspec.Struct, kw_only=True):
    """What capture found besides the graph and the records."""

    switches: int
    ranks: list[RankResult]
    warnings: list[Warning] = []
    kept: Kept = EVERYTHING
    payloads: PayloadCount | None = None
    fold: FoldResult | None = None
    device: str | None = None
    residency: ResidencyCount | None = None

    @classmethod
    def of(cls, result: Result, kept: Kept) -> Captured:
        """What a result has of the capture that it comes from."""
        return cls(
            switches=result.switches,
            ranks=_copied(result.ranks),  # a replay writes what it finds of each into the result's
            warnings=list(result.warnings),
            kept=kept,
            payloads=result.payloads,
            fold=result.fold,
            device=result.device,
            residency=result.residency,
        )

    def into(self, result: Result) -> None:
        """Write it into a result."""
        result.switches, result.ranks, result.payloads = self.switches, _copied(self.ranks), self.payloads
        result.warnings, result.fold, result.device = list(self.warnings), self.fold, self.device
        result.residency = self.residency


def _copied(ranks: list[RankResult]) -> list[RankResult]:
    return [msgspec.structs.replace(rank) for rank in ranks]


class Calibrated(msgspec.Struct, kw_only=True):
    """What calibration found besides the durations."""

    calibration: CalibrationResult
    warnings: list[Warning] = []

    def into(self, result: Result) -> None:
        """Write it into a result."""
        result.calibration = self.calibration
        result.warnings = [*result.warnings, *self.warnings]


class Done(msgspec.Struct, kw_only=True):
    """A finished stage: of what (scenario, program and torch), and how long it took."""

    digest: str
    wall_s: float


class Progress(msgspec.Struct, kw_only=True):
    """Which stages are done."""

    stages: dict[str, Done] = {}
    captured: Captured | None = None
    calibrated: Calibrated | None = None
    emulated: EmulationResult | None = None

    def require_kept(self, kept: Kept) -> None:
        """Raise ScenarioError if the capture did not keep what an emulation needs."""
        if self.captured is None or not self.captured.kept.covers(kept):
            raise ScenarioError(
                f"emulate: the capture kept nothing that stands for the ranks outside the sandbox {list(kept.sandbox)} "
                f"with contribution {kept.contribution}; put emulate among the stages and capture again, or choose the "
                "contribution zeros or replicas"
            )


def digests(scenario: Scenario, torch_version: str) -> dict[str, str]:
    """What each stage depends on: its part of the scenario, the text of the programs that run in it, and torch."""
    texts = dict.fromkeys(STAGES, _text(scenario))
    if scenario.emulate.program is not None and os.path.isfile(scenario.base / scenario.emulate.program):
        texts["emulate"] += (scenario.base / scenario.emulate.program).read_bytes()
    return {
        stage: hashlib.sha256(f"{scenario.digest(stage)} {torch_version}".encode() + texts[stage]).hexdigest()
        for stage in STAGES
    }


def _text(scenario: Scenario) -> bytes:
    """The text of the program: its script, or its module where that lies below the working directory."""
    if scenario.script is not None:
        return scenario.script.read_bytes()
    place = Path(*str(scenario.program.module).split("."))
    files = (place.with_name(f"{place.name}.py"), place / "__main__.py")
    return b"".join(file.read_bytes() for file in files if os.path.isfile(file))
