"""The C interface of ext/nccl/cuda (api.h) for ctypes: its structures, its functions and its errors."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, c_char, c_char_p, c_double, c_int32, c_int64
from pathlib import Path
from typing import Any, ClassVar

from prism.core.graph import DTYPES, REDUCES
from prism.gpu.emulation.device.built import library_path
from prism.gpu.emulation.device.planned import Part, Planned

FINE, MISMATCH, ABORTED, FAILED = range(4)


class Setup(ctypes.Structure):
    """What the engine begins with."""

    _fields_: ClassVar = [
        ("directory", c_char_p), ("board", c_char_p), ("releases", c_char_p), ("place", c_int32),
        ("sandbox_ranks", c_int32), ("ops", c_int64), ("device", c_int32), ("arc_device", c_int32),
        ("pool_bytes", c_int64), ("channels", c_int32), ("sharing", c_int32), ("mode", c_int32),
    ]  # fmt: skip


class PartOfFile(ctypes.Structure):
    """A payload."""

    _fields_: ClassVar = [("path", c_char_p), ("offset", c_int64), ("nbytes", c_int64)]

    @classmethod
    def of(cls, part: Part | None) -> PartOfFile:
        """As the engine takes it; nothing without a path."""
        return cls() if part is None else cls(part.path.encode(), part.offset, part.nbytes)


class Partner(ctypes.Structure):
    """A message."""

    _fields_: ClassVar = [("peer", c_int32), ("sends", c_int32), ("nbytes", c_int64), ("payload", PartOfFile)]


class Op(ctypes.Structure):
    """A planned call."""

    _fields_: ClassVar = [
        ("kind", c_int32), ("dtype", c_int32), ("reduce", c_int32), ("root", c_int32), ("count", c_int64),
        ("op", c_int64), ("entry", c_int64), ("latency", c_int64), ("transfer", c_int64), ("head", PartOfFile),
        ("tail", PartOfFile), ("final", PartOfFile), ("partners_size", c_int32), ("partners", POINTER(Partner)),
        ("uneven", c_int32),
    ]  # fmt: skip

    @classmethod
    def of(cls, call: Planned, entry: int) -> Op:
        """As the engine takes it."""
        partners = [Partner(one.peer, one.sends, one.nbytes, PartOfFile.of(one.payload)) for one in call.partners]
        parts = [PartOfFile.of(part) for part in (call.head, call.tail, call.final)]
        return cls(
            call.kind, DTYPES.index(call.dtype), REDUCES.index(call.reduce), call.root, call.count,
            call.op if call.shown else -1, entry, call.latency, call.transfer, *parts,
            len(partners), (Partner * len(partners))(*partners), call.uneven,
        )  # fmt: skip


class Report(ctypes.Structure):
    """The first thing that went wrong."""

    _fields_: ClassVar = [("kind", c_int32), ("group", c_char * 128), ("number", c_int64), ("text", c_char * 512)]


class Figures(ctypes.Structure):
    """What the engine has taken and counted."""

    _fields_: ClassVar = [
        ("fifos", c_int64), ("pool", c_int64), ("stash", c_int64), ("reserved", c_int64), ("hits", c_int64),
        ("misses", c_int64), ("stalls", c_int64), ("start_seconds", c_double),
    ]  # fmt: skip


_FUNCTIONS: dict[str, list[Any]] = {
    "begin": [POINTER(Setup)],
    "group": [c_char_p, c_int32, c_int32, POINTER(c_int32), c_int32, c_int64],
    "planned": [c_char_p, POINTER(Op)],
    "identify": [c_char_p, c_char_p, POINTER(c_int32), c_int32],
    "start": [],
    "state": [POINTER(Report)],
    "measure": [POINTER(Figures)],
}


class Device:
    """The engine of this process, which has the library preloaded: only then NCCL's calls are the library's."""

    def __init__(self, library: Path) -> None:
        self._c = ctypes.CDLL(str(library))
        self._c.prism_device_error.restype = c_char_p
        for name, arguments in _FUNCTIONS.items():
            getattr(self._c, f"prism_device_{name}").argtypes = arguments

    def begin(self, setup: Setup) -> None:
        """From here on communicators that are identified are the engine's."""
        self._call("begin", setup)

    def group(self, name: str, size: int, rank: int, sandbox: Sequence[int], reserve: int = 0) -> None:
        """Tell of a group with virtual members; `reserve`: bytes that NCCL's own communicator would take."""
        self._call("group", name.encode(), size, rank, (c_int32 * len(sandbox))(*sandbox), len(sandbox), reserve)

    def planned(self, call: Planned, entry: int) -> None:
        """Tell of a call that will come; those of a group in their order."""
        self._call("planned", call.group.encode(), Op.of(call, entry))

    def identify(self, unique: bytes, group: str, members: Sequence[int]) -> None:
        """Say which communicator an ncclUniqueId means: members of a group, in the communicator's order."""
        self._call("identify", unique, group.encode(), (c_int32 * len(members))(*members), len(members))

    def start(self) -> None:
        """Load the kernels, take the memory, begin to read ahead; returns when all sandbox ranks' engines do."""
        self._call("start")

    def state(self) -> Report:
        """What went wrong, if anything."""
        report = Report()
        self._call("state", report)
        return report

    def measure(self) -> Figures:
        """What it has taken and counted."""
        figures = Figures()
        self._call("measure", figures)
        return figures

    def _call(self, name: str, *arguments: Any) -> None:
        if getattr(self._c, f"prism_device_{name}")(*arguments):
            raise OSError(f"the engine on the device: {self._c.prism_device_error().decode(errors='replace')}")


def load() -> Device:
    """The engine of this process."""
    path = library_path()
    if path is None:
        raise ImportError("prism.gpu._device is not built; `make ext` builds it where there is nvcc")
    return Device(path)
