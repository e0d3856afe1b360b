"""The output folder of a run: what lies where, who has it, and which finished stages may be used again."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import shutil
import zipfile
import zlib
from pathlib import Path

import msgspec
import numpy as np

from prism import trace
from prism.atomic import write_whole
from prism.core.graph import Graph
from prism.core.measuring.lead import Timings
from prism.core.record import RankRecord
from prism.core.stage.kept import Kept
from prism.errors import ScenarioError
from prism.exhaustion import room_in
from prism.net.passing import OVERFLOW
from prism.progress import Progress
from prism.scenario import Scenario


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
        self.timings = path / "timings.npz"
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
            self.release()
            raise ScenarioError(f"--out: {self.path}: {error.strerror}; name another folder") from None
        if refusal:
            self.release()
            raise ScenarioError(f"--out: {self.path} {refusal}")

    def log(self, rank: int, stage: str) -> Path:
        """What a rank prints in a stage."""
        return self.logs / (f"{rank}.log" if stage == "capture" else f"{rank}.{stage}.log")

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
        for path in (self.graph, self.timeline, self.report, self.result, self.slices, self.timings):
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

    def save_timings(self, timings: Timings) -> None:
        """Write what graph.prism has been made of, if it depends on the network: timings.npz."""
        if not timings.slack.any():
            self.timings.unlink(missing_ok=True)
            return
        data = io.BytesIO()
        np.savez_compressed(data, durations=timings.durations, slack=timings.slack, waited=timings.waited)
        write_whole(self.timings, [data.getvalue()])

    def load_timings(self) -> Timings | None:
        """Read timings.npz, None if there is none; raises ScenarioError."""
        try:
            with np.load(self.timings) as data:
                return Timings(data["durations"], data["slack"], data["waited"])
        except FileNotFoundError:
            return None
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error) as error:
            raise ScenarioError(
                f"--out: {self.timings} cannot be read ({error}); run the stage calibrate again, in another folder"
            ) from None

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
