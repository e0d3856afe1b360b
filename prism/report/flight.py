"""What the ranks had posted when a capture failed, as dumps that torch's flight recorder analyser reads.

    python -m torch.distributed.flight_recorder.fr_trace OUT/flight

The format is that of `torch._C._distributed_c10d._dump_fr_trace` (torch 2.13): one pickle a rank, with an entry for
each operation that the rank posted. Two things differ from a dump of torch's own. Sizes are numbers of elements, since
shapes may differ where counts do not. And a message is an operation of its two ranks alone, numbered by the match that
PRISM found, because the analyser expects all members of a group in all that is posted on it. It has no way to say "from
any rank", so a receive of that kind is left out while nothing has come.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from prism.core.calls import Call
from prism.core.diagnosis import SEPARATOR
from prism.core.graph import OpKind
from prism.core.record import PostStep, RankRecord
from prism.core.semantics import RULES
from prism.core.stage.capture import Capture
from prism.core.stage.op import CommGroup, Op

VERSION = "2.10"
DTYPES = {
    "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long", "float16": "Half",
    "bfloat16": "BFloat16", "float32": "Float", "float64": "Double", "bool": "Bool", "complex64": "ComplexFloat",
    "complex128": "ComplexDouble", "float8_e4m3fn": "Float8_e4m3fn", "float8_e5m2": "Float8_e5m2", "uint16": "UInt16",
    "uint32": "UInt32", "uint64": "UInt64", "float8_e4m3fnuz": "Float8_e4m3fnuz", "float8_e5m2fnuz": "Float8_e5m2fnuz",
}  # fmt: skip
"""What torch's C++ calls its types."""


def write_flight(folder: Path, capture: Capture) -> None:
    """Write `rank_<r>` for each rank into the folder, which is made."""
    ops = {(post.rank, post.handle): op for op in capture.matcher.ops for post in op.posts.values()}
    unmatched = count(len(capture.matcher.ops) + 1)
    folder.mkdir()
    for record in capture.records:
        dump = _dump(record, capture, ops, unmatched)
        (folder / f"rank_{record.rank}").write_bytes(pickle.dumps(dump))


@dataclass(frozen=True)
class _Place:
    """On which group of the dump an operation is, and as which number of it."""

    uid: str
    name: str
    ranks: tuple[int, ...]
    seq: int


def _dump(record: RankRecord, capture: Capture, ops: dict[tuple[int, int], Op], unmatched: Iterator[int]) -> Any:
    rank = record.rank
    groups = {str(g.index): _whole(g, 0) for g in capture.matcher.groups if rank in g.joined}
    posted: dict[str, list[dict[str, Any]]] = {uid: [] for uid in groups}
    entries: list[dict[str, Any]] = []
    for step in record.steps:
        if not isinstance(step, PostStep):
            continue
        op = ops.get((rank, step.handle))
        group = op.group if op is not None else capture.matcher.of(rank, step.group)
        if op is None and step.call.peer < 0:
            continue
        place = _place(rank, step.call, op, group, unmatched)
        groups.setdefault(place.uid, place)
        done = op is not None and op.done
        entries.append(_entry(len(entries), group, group.member(rank), place, step, done))
        posted.setdefault(place.uid, []).append(entries[-1])
    return {
        "version": VERSION,
        "comm_lib_version": "",
        "pg_config": {uid: {"name": uid, "desc": p.name, "ranks": str(list(p.ranks))} for uid, p in groups.items()},
        "pg_status": {uid: _status(of_group) for uid, of_group in posted.items()},
        "entries": entries,
    }


def _whole(group: CommGroup, seq: int) -> _Place:
    return _Place(str(group.index), group.name, group.ranks, seq)


def _place(rank: int, call: Call, op: Op | None, group: CommGroup, unmatched: Iterator[int]) -> _Place:
    if call.kind is not OpKind.SEND_RECV:
        assert op is not None, "a collective has an operation from its first post on"
        return _whole(group, op.seq + 1)
    ends = op.members if op is not None else (rank, group.ranks[call.peer])
    pair = tuple(sorted(set(ends)))
    between = "-".join(map(str, pair))
    number = op.number + 1 if op is not None else next(unmatched)
    return _Place(f"{group.index}:{between}", f"{group.name} between {between}", pair, number)


def _entry(number: int, group: CommGroup, member: int, place: _Place, step: PostStep, done: bool) -> dict[str, Any]:
    call, is_message = step.call, step.call.kind is OpKind.SEND_RECV
    backend = group.backend if group.backend in RULES else "gloo"
    sizes = _sizes(call, member, len(group.ranks))
    dtypes = [DTYPES[call.dtype]] if call.kind is not OpKind.BARRIER else []
    return {
        "record_id": number,
        "pg_id": group.index,
        "process_group": (place.uid, place.name),
        "collective_seq_id": place.seq,
        "p2p_seq_id": place.seq if is_message else 0,
        "op_id": number + 1,
        "profiling_name": f"{backend}:{_name(call, group.ranks[member], place)}",
        "is_p2p": is_message,
        "input_sizes": sizes[0],
        "input_dtypes": dtypes,
        "output_sizes": sizes[1],
        "output_dtypes": dtypes,
        "state": "completed" if done else "scheduled",
        "retired": done,
        "frames": _frames(step.site),
        "time_created_ns": 0,  # capture knows an order, and no times
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
    }


def _name(call: Call, rank: int, place: _Place) -> str:
    """The operation; of a message also its ends, as positions among the two ranks of the place."""
    if call.kind is not OpKind.SEND_RECV:
        return call.name
    me = place.ranks.index(rank)
    peer = len(place.ranks) - 1 - me
    return f"{call.name} {me}{'->' if call.sends else '<-'}{peer}"


def _sizes(call: Call, member: int, size: int) -> tuple[list[list[int]], list[list[int]]]:
    """Elements of input and output, in lists of torch's form."""
    inputs = outputs = call.count
    match call.kind:
        case OpKind.BARRIER:
            return [], []
        case OpKind.ALL_GATHER | OpKind.GATHER | OpKind.ALL_TO_ALL:
            outputs = sum(call.recv)
        case OpKind.REDUCE_SCATTER:
            outputs = call.send[member]
        case OpKind.SCATTER if member == call.root:
            outputs = call.count // size
    return [[inputs]], [[outputs]]


def _frames(site: str) -> list[dict[str, Any]]:
    """The call site, innermost first; functions are not known."""
    frames = []
    for frame in filter(None, site.split(SEPARATOR)):
        path, _, line = frame.rpartition(":")
        frames.append({"name": "?", "filename": path, "line": int(line)})
    return frames


def _status(entries: list[dict[str, Any]]) -> dict[str, int]:
    """The last operation of a group that the rank posted and the last that is done; -1 for none."""
    done = [entry["collective_seq_id"] for entry in entries if entry["retired"]]
    return {
        "last_enqueued_collective": max((entry["collective_seq_id"] for entry in entries), default=-1),
        "last_started_collective": max(done, default=-1),
        "last_completed_collective": max(done, default=-1),
    }
