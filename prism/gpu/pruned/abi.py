"""The C interface of ext/nccl (api.h) for ctypes: its structures, its functions and its errors."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Sequence
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_void_p
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

DONE, PENDING, ABORTED, PEER_LOST, MISMATCH, INVALID, FAILED = range(7)


class Aborted(RuntimeError):
    """`abort()` was called on the directory; the text is the reason that was given."""


class PeerLost(RuntimeError):
    """The process at the other end has ended."""


class Mismatch(RuntimeError):
    """The other end runs another operation, or the same with another size."""


_ERRORS = {ABORTED: Aborted, PEER_LOST: PeerLost, MISMATCH: Mismatch, INVALID: ValueError, FAILED: OSError}


class Membership(ctypes.Structure):
    """Who a party of a group is."""

    _fields_: ClassVar = [
        ("directory", c_char_p), ("group", c_char_p), ("size", c_int32), ("rank", c_int32),
        ("sandbox", POINTER(c_int32)), ("sandbox_size", c_int32), ("nodes", POINTER(c_int32)),
    ]  # fmt: skip


class Op(ctypes.Structure):
    """One member's side of a collective."""

    _fields_: ClassVar = [
        ("kind", c_int32), ("dtype", c_int32), ("reduce", c_int32), ("root", c_int32), ("size", c_int32),
        ("tree", c_int32), ("has_sends", c_int32), ("has_receives", c_int32), ("count", c_int64),
        ("sends", POINTER(c_int64)), ("receives", POINTER(c_int64)),
    ]  # fmt: skip


class Contribution(ctypes.Structure):
    """What virtual members bring."""

    _fields_: ClassVar = [
        ("mode", c_int32), ("head", c_void_p), ("tail", c_void_p), ("final", c_void_p), ("branches", c_void_p * 4),
    ]  # fmt: skip


class Pace(ctypes.Structure):
    """When virtual members act."""

    _fields_: ClassVar = [
        ("posts", POINTER(c_int64)), ("posts_size", c_int64), ("latency", c_int64), ("transfer", c_int64),
    ]  # fmt: skip


class Moved(ctypes.Structure):
    """What an operation moved."""

    _fields_: ClassVar = [
        ("sends", c_int64), ("receives", c_int64), ("sent_bytes", c_int64), ("received_bytes", c_int64),
    ]  # fmt: skip


class MemberStep(ctypes.Structure):
    """A row of a member's plan."""

    _fields_: ClassVar = [
        (name, c_int64) for name in ("receive", "reduce", "store", "send", "complete", "first", "last")
    ]


class ArcStep(ctypes.Structure):
    """A row of an arc's plan."""

    _fields_: ClassVar = [
        (name, c_int64) for name in ("delayed", "adders", "total", "complete", "owner", "first", "last")
    ]


class Branch(ctypes.Structure):
    """A row of the branches that a member keeps."""

    _fields_: ClassVar = [(name, c_int64) for name in ("tree", "top", "above", "slot", "carries", "members", "below")]


class Link(ctypes.Structure):
    """Which FIFO a bridge carries."""

    _fields_: ClassVar = [
        ("name", c_char_p), ("is_pipe", c_int32), ("from_role", c_int32), ("from_rank", c_int32), ("to_role", c_int32),
        ("to_rank", c_int32), ("is_edge", c_int32), ("tree", c_int32), ("child", c_int32), ("up", c_int32),
    ]  # fmt: skip


class Seal(ctypes.Structure):
    """What a bridge's records are sealed with."""

    _fields_: ClassVar = [("encrypt", c_void_p), ("decrypt", c_void_p), ("key", ctypes.c_uint8 * 32)]


_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "pruned_error": (c_char_p, []),
    "pruned_open_member": (c_void_p, [POINTER(Membership), c_int32]),
    "pruned_open_arc": (c_void_p, [POINTER(Membership)]),
    "pruned_open_peers": (c_void_p, [POINTER(Membership)]),
    "pruned_open_branches": (c_void_p, [POINTER(Membership)]),
    "pruned_open_pipe": (c_void_p, [c_char_p, c_char_p]),
    "pruned_close": (None, [c_void_p]),
    "pruned_start_member": (c_int32, [c_void_p, POINTER(Op), c_void_p, c_void_p]),
    "pruned_start_arc": (c_int32, [c_void_p, POINTER(Op), POINTER(Contribution), POINTER(Pace)]),
    "pruned_start_peers": (c_int32, [c_void_p, POINTER(Op), c_void_p, POINTER(Pace)]),
    "pruned_start_branches": (c_int32, [c_void_p, POINTER(Op), POINTER(Contribution), POINTER(Pace)]),
    "pruned_start_send": (c_int32, [c_void_p, c_void_p, c_int64, c_int64, c_int64]),
    "pruned_start_receive": (c_int32, [c_void_p, c_void_p, c_int64]),
    "pruned_wait": (c_int32, [c_void_p, POINTER(Moved)]),
    "pruned_open_bridge": (c_void_p, [c_char_p, POINTER(Link), POINTER(Seal), c_int32, c_int32]),
    "pruned_turn_bridge": (c_int32, [c_void_p]),
    "pruned_close_bridge": (None, [c_void_p]),
    "pruned_abort": (c_int32, [c_char_p, c_char_p]),
    "pruned_check": (c_int32, [c_char_p]),
    "pruned_set_clock": (None, [c_int64, c_int64]),
    "pruned_member_plan": (c_int64, [POINTER(Op), c_int32, POINTER(MemberStep)]),
    "pruned_arc_plan": (c_int64, [POINTER(Op), POINTER(Membership), POINTER(ArcStep)]),
    "pruned_branches": (c_int64, [POINTER(Membership), POINTER(Branch)]),
    "pruned_release_times": (
        c_int32, [POINTER(Op), POINTER(Membership), POINTER(Pace), POINTER(c_int64), c_int64, POINTER(c_int64)],
    ),
}  # fmt: skip


def _load() -> ctypes.CDLL:
    spec = importlib.util.find_spec("prism.gpu._pruned")
    if spec is None or spec.origin is None:
        raise ImportError("prism.gpu._pruned is not built; `make ext` builds it where there is a C++20 compiler")
    loaded = ctypes.CDLL(spec.origin)
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(loaded, name, None)
        if function is None:  # of an older build: whoever calls it is told
            continue
        function.restype, function.argtypes = result, arguments
    return loaded


library = _load()


def error(status: int) -> Exception:
    """The exception for a status that is neither DONE nor PENDING."""
    return _ERRORS[status](library.pruned_error().decode())


def check(status: int) -> None:
    """Raise if the status is an error."""
    if status not in (DONE, PENDING):
        raise error(status)


def membership(
    directory: str | Path, group: str, size: int, sandbox: Sequence[int], rank: int, nodes: Sequence[int] = ()
) -> Membership:
    """Who a party is, as the engine takes it."""
    if len(nodes) not in (0, size):
        raise ValueError(f"nodes has {len(nodes)} entries for {size} members")
    members, places = (c_int32 * len(sandbox))(*sandbox), (c_int32 * len(nodes))(*nodes) if nodes else None
    return Membership(str(directory).encode(), group.encode(), size, rank, members, len(sandbox), places)


def array(values: Sequence[int] | npt.NDArray[np.int64]) -> ctypes.Array[c_int64] | None:
    """A copy of int64 values, which a structure that points to it keeps alive; null for none."""
    if not len(values):
        return None
    return (c_int64 * len(values)).from_buffer_copy(np.asarray(values, dtype=np.int64).tobytes())
