"""The timeline as one Kineto trace a rank, for HolisticTraceAnalysis and whatever else reads the profiles of torch.

A profile has kernels on the streams of a device, and the calls of a host that launch them. Here each lane is a stream
with its computing as kernels, and so is each communication channel of a rank. Its kernels last from the rank's post to
the end of the op, as NCCL's do: they wait for the peers inside. After each launch an event is recorded. A kernel that
goes on after something on another stream (a post after computing, computing after a wait that blocked) waits for that
event; critical paths are found by this. The calls of the host take a microsecond each and come just in time. Times are
whole microseconds, to which the readers round them anyhow.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from prism.core.graph import Graph, NodeKind, OpKind, Timeline
from prism.core.timeline.analysis import last_ops
from prism.core.timeline.replay import make_plan
from prism.report.causal import rank_nodes
from prism.report.tracks import op_name

_DEVICE, _HOST = 0, 1  # pids: each rank has a file to itself
_MARK = "mark"  # in the list of calls: the end of an iteration
_KERNEL = {
    OpKind.ALL_REDUCE: "AllReduce",
    OpKind.REDUCE_SCATTER: "ReduceScatter",
    OpKind.ALL_GATHER: "AllGather",
    OpKind.BROADCAST: "Broadcast",
    OpKind.REDUCE: "Reduce",
    # NCCL has no kernels of these names: torch makes them of others.
    OpKind.GATHER: "SendRecv",
    OpKind.SCATTER: "SendRecv",
    OpKind.ALL_TO_ALL: "SendRecv",
    OpKind.SEND_RECV: "SendRecv",
    OpKind.BARRIER: "AllReduce",
}

Event = dict[str, Any]


class Cause(NamedTuple):
    """What a kernel can wait for: the event recorded after the last kernel of a stream."""

    stream: int
    record: int  # correlation of the call that recorded it


def write_kineto(folder: Path, graph: Graph, timeline: Timeline) -> None:
    """Write `rank<r>.json` for each rank into the folder, which is made; equal inputs give equal bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    job = _Job(graph, timeline)
    for rank, nodes in rank_nodes(graph, timeline, make_plan(graph)):
        profile = _Profile(job)
        for row in nodes.tolist():
            profile.tell(row)
        about = {"backend": "nccl", "rank": rank, "world_size": graph.world_size}
        events = b",\n".join(map(msgspec.json.encode, profile.events()))
        # Readers look for the rank in the text, with a space before the number: json writes one, msgspec does not.
        head = f'{{"schemaVersion": 1, "distributedInfo": {json.dumps(about)},\n"traceEvents": [\n'
        (folder / f"rank{rank}.json").write_bytes(head.encode() + events + b"\n]}\n")


class _Job:
    """What the profiles of all ranks are made of; times in us."""

    def __init__(self, graph: Graph, timeline: Timeline) -> None:
        self.graph = graph
        self.lane: list[int] = graph.node_lane().tolist()
        self.start: list[int] = (timeline.node_start // 1000).tolist()
        self.end: list[int] = (timeline.node_end // 1000).tolist()
        self.lasts: list[bool] = (timeline.node_end > timeline.node_start).tolist()
        self.op_end: list[int] = (timeline.op_end // 1000).tolist()
        self.last_op: list[int] = last_ops(graph, timeline).tolist()
        self.channel: list[int] = (np.cumsum(graph.ops["prev"] < 0) - 1).tolist()  # those of one lie side by side

    def about(self, op: int) -> Event:
        """What a kernel of an op says of it, in the words of torch's profiler."""
        row = self.graph.ops[op]
        group = self.graph.groups[row["group"]]
        return {
            "Collective name": op_name(self.graph, op),
            "Process Group Name": group.name,
            "Group size": len(group.ranks),
            "bytes": int(row["nbytes"]),
        }


class _Profile:
    """One rank's kernels and calls, as its nodes are told."""

    def __init__(self, job: _Job) -> None:
        self._job = job
        self._streams: dict[tuple[str, int], int] = {}  # lane or channel -> number
        self._device: list[Event] = []
        self._calls: list[tuple[int, str]] = []  # when it has to come at the latest, name; the row is its correlation
        self._busy: dict[int, int] = {}  # stream -> end of its last kernel
        self._cause: dict[int, Cause | None] = {}  # lane -> what it goes on after
        self._ends: dict[int, Cause] = {}  # op -> what comes after it
        self._recorded: dict[int, Cause | None] = {}  # event -> what it comes after

    def tell(self, row: int) -> None:
        """Add what a node of the graph comes to."""
        job, lane = self._job, self._job.lane[row]
        kind, ref = job.graph.nodes["kind"][row], int(job.graph.nodes["ref"][row])
        match kind:
            case NodeKind.COMPUTE if job.lasts[row]:
                self._cause[lane] = self._launch(("lane", lane), lane, "compute", job.start[row], job.end[row])
            case NodeKind.POST:
                name = f"ncclDevKernel_{_KERNEL[OpKind(job.graph.ops['kind'][ref])]}"
                channel = ("channel", job.channel[ref])
                self._ends[ref] = self._launch(channel, lane, name, job.end[row], job.op_end[ref], job.about(ref))
            case NodeKind.WAIT if job.lasts[row]:
                self._cause[lane] = self._ends[job.last_op[ref]]
            case NodeKind.WAIT_EVENT if job.lasts[row]:
                self._cause[lane] = self._recorded[ref]
            case NodeKind.RECORD:
                self._recorded[ref] = self._cause.get(lane)
            case NodeKind.MARK:
                self._call(job.end[row], _MARK)

    def _launch(
        self, place: tuple[str, int], lane: int, name: str, start: int, end: int, about: Event | None = None
    ) -> Cause:
        """A kernel on the stream of a place, which goes on after what the lane goes on after; and its record."""
        stream = self._streams.setdefault(place, len(self._streams))
        start = max(start, self._busy.get(stream, start))
        self._busy[stream] = end
        cause = self._cause.get(lane)
        if cause is not None and cause.stream != stream:
            awaited = {"wait_on_stream": cause.stream, "wait_on_cuda_event_record_corr_id": cause.record}
            call = self._call(start - 2, "cudaStreamWaitEvent")
            self._add("cuda_sync", "Stream Wait Event", stream, start, 0, call, awaited)
        self._add("kernel", name, stream, start, end - start, self._call(start - 1, "cudaLaunchKernel"), about or {})
        return Cause(stream, self._call(start, "cudaEventRecord"))

    def _call(self, latest: int, name: str) -> int:
        self._calls.append((latest, name))
        return len(self._calls)

    def _add(self, cat: str, name: str, stream: int, at: int, dur: int, correlation: int, about: Event) -> None:
        args = {"device": _DEVICE, "stream": stream, "correlation": correlation, **about}
        self._device.append(_event(cat, name, _DEVICE, stream, at, dur, args))

    def events(self) -> Iterator[Event]:
        """Everything told: names of the streams, calls, steps, kernels."""
        for (place, number), stream in self._streams.items():
            about = {"name": f"{place} {number}"}
            yield {"ph": "M", "name": "thread_name", "pid": _DEVICE, "tid": stream, "ts": 0, "args": about}
        starts = self._starts()
        for row, (at, (_, name)) in enumerate(zip(starts, self._calls, strict=True)):
            if name != _MARK:
                yield _event("cuda_runtime", name, _HOST, _HOST, at, 1, {"correlation": row + 1})
        marks = [at for at, (_, name) in zip(starts, self._calls, strict=True) if name == _MARK]
        # A step is what its calls are, so it begins and ends where the host does. The one after the last mark is there
        # because readers drop the last.
        edges = [starts[0], *marks, max([starts[-1] + 1, *self._busy.values()])] if marks else []
        for step, (low, high) in enumerate(pairwise(edges)):
            yield _event("user_annotation", f"ProfilerStep#{step}", _HOST, _HOST, low, high - low, {})
        yield from self._device

    def _starts(self) -> list[int]:
        """When each call starts, in us: as late as it may, and at least one before the next."""
        latest = np.array([at for at, _ in self._calls], np.int64)
        place = np.arange(len(latest))
        starts: list[int] = (np.minimum.accumulate((latest - place)[::-1])[::-1] + place).tolist()
        return starts


def _event(cat: str, name: str, pid: int, tid: int, at: int, dur: int, args: Event) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": at, "dur": dur, "args": args}
