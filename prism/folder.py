"""The output folder of a run: what lies where, and which finished stages may be used again."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from pathlib import Path

import msgspec

from prism import trace
from prism.atomic import write_whole
from prism.core.diagnosis import Warning
from prism.core.graph import Graph
from prism.core.record import RankRecord
from prism.core.stage.kept import EVERYTHING, Kept, PayloadCount
from prism.core.stage.residency import ResidencyCount
from prism.errors import ScenarioError
from prism.exhaustion import room_in
from prism.net.passing import OVERFLOW
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


class Folder:
    """Paths below --out, and reading and writing of what the stages leave there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.result = path / "result.json"
        self.graph = path / "graph.prism"
        self.report = path / "report.html"
        self.timeline = path / "timeline.pftrace"
        self.logs = path / "ranks"
        self.payloads = path / "payloads"
        self.records = path / "record"
        self.flight = path / "flight"
        self.kineto = path / "kineto"
        self.chakra = path / "chakra"
        self.slices = path / "slices.log"
        self._progress = path / "progress.json"
        self._claim: int | None = None  # the folder, locked for the run that has it

    def begin(self, resume: bool) -> None:
        """Make the folder.

        Raises ScenarioError if it cannot be made or written to, if another run has it, or if it holds a run that this
        is not meant to go on with.
        """
        try:
            with room_in(self.path):
                self.path.mkdir(parents=True, exist_ok=True)
            self._claim = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            refusal = self._refusal(self._claim, resume)
        except FileExistsError:
            raise ScenarioError(f"--out: {self.path} is a file; name a folder") from None
        except OSError as error:
            raise ScenarioError(f"--out: {self.path}: {error.strerror}; name another folder") from None
        if refusal:
            self.release()
            raise ScenarioError(f"--out: {self.path} {refusal}")

    def release(self) -> None:
        """Let other runs have the folder."""
        if self._claim is not None:
            os.close(self._claim)
            self._claim = None

    def _refusal(self, claim: int, resume: bool) -> str:
        """Why a run cannot have the folder, which it holds open; "" if it has it now."""
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return "has another run going on in it; let that end, or name another folder"
        except OSError:  # a file system without locks
            pass
        if not os.access(self.path, os.W_OK | os.X_OK):
            return "cannot be written to; name another folder"
        if not resume and any(self.path.iterdir()):
            return "is not empty; add --resume to go on with it (what has changed runs again), or name another folder"
        return ""

    def abandon(self) -> None:
        """Take the folder away again if nothing was put into it."""
        with contextlib.suppress(OSError):
            self.path.rmdir()

    def receive(self) -> None:
        """Make the folders that the ranks of a stage write into, where they are not there."""
        with room_in(self.path):
            self.logs.mkdir(exist_ok=True)
            self.payloads.mkdir(mode=0o700, exist_ok=True)  # tensors of the program are nobody else's business

    def clear_overflow(self) -> None:
        """Take away what a stage had no room for in memory."""
        shutil.rmtree(self.payloads / OVERFLOW, ignore_errors=True)

    def clear_capture(self) -> None:
        """Take away what an unfinished capture left, and what came of it."""
        self._progress.unlink(missing_ok=True)  # first: what it tells of is about to go
        for folder in (self.logs, self.payloads, self.records):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700 if folder == self.payloads else 0o777, parents=True)
        for folder in (self.flight, self.kineto, self.chakra):
            shutil.rmtree(folder, ignore_errors=True)
        for path in (self.graph, self.timeline, self.report, self.result, self.slices):
            path.unlink(missing_ok=True)

    def progress(self, digests: dict[str, str], kept: Kept) -> Progress:
        """What was done before, of the same things: no stages whose digests differ, no capture that lacks of `kept`."""
        progress = self.noted()
        progress.stages = {name: done for name, done in progress.stages.items() if done.digest == digests[name]}
        has_kept = progress.captured is not None and progress.captured.kept.covers(kept)
        return progress if has_kept and "capture" in progress.stages else Progress()

    def noted(self) -> Progress:
        """All that was done in the folder, also of a scenario or a program that was another then."""
        try:
            return msgspec.json.decode(self._progress.read_bytes(), type=Progress)
        except (OSError, msgspec.DecodeError):
            return Progress()

    def save_progress(self, progress: Progress) -> None:
        """Note what is done; readers see the old file or the new one, never half of it."""
        write_whole(self._progress, [msgspec.json.encode(progress)])

    def save_graph(self, graph: Graph, scenario: Scenario) -> None:
        """Write graph.prism."""
        trace.write(self.graph, graph, scenario.digest())

    def load_graph(self) -> Graph:
        """Read graph.prism; raises ScenarioError."""
        return trace.read(self.graph).graph

    def earlier_graph(self) -> Graph | None:
        """The graph that is there, of whatever capture; None if there is none that can be read."""
        try:
            return self.load_graph()
        except ScenarioError:
            return None

    def save_records(self, records: list[RankRecord]) -> None:
        """Write what each rank did and got."""
        for record in records:
            data = record.encode()
            with room_in(self.path, len(data)):
                (self.records / f"{record.rank}.msgpack").write_bytes(data)

    def load_record(self, rank: int) -> RankRecord:
        """Read what a rank did and got; raises ScenarioError naming the stage that makes it."""
        path = self.records / f"{rank}.msgpack"
        try:
            return RankRecord.decode(path.read_bytes())
        except (OSError, msgspec.DecodeError) as error:
            raise ScenarioError(f"--out: {path} cannot be read ({error}); run the stage capture first") from None


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
