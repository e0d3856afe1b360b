"""The timeline as a Perfetto trace: a process per rank, a thread per lane, a track per communication channel.

Slices of a thread are its compute, its waits for peers and the ops that it is blocked by; slices of a channel are the
ops in flight, which run one after another there by the definition of a channel. An arrow leads from the post that an
op was waiting for to each rank that it kept waiting.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket, TrackDescriptor, TrackEvent
from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

from prism.atomic import whole
from prism.core.graph import Graph, NodeKind, OpKind, Stream, Table, Timeline
from prism.report.tracks import State, alike, alike_name, op_name, segments

MAX_RANKS = 256
"""Ranks of a larger world are shown once for all that do alike, and no more sets than this: the lowest."""
_SEQUENCE = 1  # one writer: all packets belong to one trusted sequence


@dataclass(frozen=True, slots=True)
class _Event:
    at: int
    track: int
    kind: int  # TrackEvent.Type
    name: str = ""
    args: dict[str, int | str] = field(default_factory=dict)
    starts: tuple[int, ...] = ()  # arrows that start here
    ends: tuple[int, ...] = ()  # arrows that end here


def write_perfetto(path: Path, graph: Graph, timeline: Timeline) -> None:
    """Write `timeline.pftrace`: timestamps are ns from the start of the job, and equal inputs give equal bytes."""
    table = segments(graph, timeline)
    tracks = _Tracks(graph, _shown(graph, table))
    table = table[tracks.lane_shown[table["lane"]]]
    arrows = _arrows(graph, timeline, table, tracks)
    # Instants come first so that, at equal times, the file has the start of an arrow before its end.
    events = [*_last_posts(graph, timeline, tracks, arrows), *_marks(graph, timeline, tracks)]
    events += _lane_slices(graph, tracks, table, arrows)
    events += _channel_slices(graph, timeline, tracks)
    events.sort(key=lambda event: event.at)
    with whole(path) as part, part.open("wb") as file:
        builder = StreamingTraceProtoBuilder(file)
        for track in tracks.describe():
            packet = builder.create_packet()
            packet.trusted_packet_sequence_id = _SEQUENCE
            packet.track_descriptor.CopyFrom(track)
            builder.write_packet(packet)
        for event in events:
            builder.write_packet(_packet(builder.create_packet(), event))


def _shown(graph: Graph, table: Table) -> dict[int, str]:
    """The ranks that get tracks, with their names."""
    if graph.world_size <= MAX_RANKS:
        return {rank: f"rank {rank}" for rank in range(graph.world_size)}
    return {ranks[0]: alike_name(ranks) for ranks in alike(graph, table)[:MAX_RANKS]}


class _Tracks:
    """The ids of all tracks: ranks, then lanes, then the channels of each rank; only of ranks that are shown."""

    def __init__(self, graph: Graph, names: dict[int, str]) -> None:
        self._graph = graph
        self._names = names
        self.shown = np.zeros(graph.world_size, np.bool_)
        self.shown[list(names)] = True
        self.lane_shown = self.shown[graph.lanes["rank"]]
        self._channel = np.cumsum(graph.ops["prev"] < 0) - 1  # ops of a channel lie side by side
        post_rank = graph.node_rank()[graph.posts]
        post_op = np.repeat(np.arange(len(graph.ops)), np.diff(graph.post_ptr))
        pairs = np.stack([post_rank, self._channel[post_op]], axis=1)
        self._pairs, row = np.unique(pairs, axis=0, return_inverse=True)
        self.post_op = post_op
        self.post_track = 1 + graph.world_size + len(graph.lanes) + row.ravel()

    def rank(self, rank: int) -> int:
        return 1 + rank

    def lane(self, lane: int) -> int:
        return 1 + self._graph.world_size + lane

    def describe(self) -> Iterator[TrackDescriptor]:
        for rank, name in self._names.items():
            track = TrackDescriptor(uuid=self.rank(rank))
            track.process.pid = self.rank(rank)  # not the rank itself: Perfetto takes process 0 for the idle task
            track.process.process_name = name
            track.process.legacy_sort_index = rank
            yield track
        for lane, (rank, stream, index) in enumerate(self._graph.lanes.tolist()):
            if not self.shown[rank]:
                continue
            track = TrackDescriptor(uuid=self.lane(lane), parent_uuid=self.rank(rank))
            track.thread.pid, track.thread.tid = self.rank(rank), self.lane(lane)
            track.thread.thread_name = Stream(stream).name.lower() + (f" {index}" if index else "")
            track.thread.legacy_sort_index = lane
            yield track
        first = np.searchsorted(self._channel, np.arange(self._channel.max(initial=-1) + 1))
        base = self.lane(len(self._graph.lanes))
        for row, (rank, channel) in enumerate(self._pairs.tolist()):
            if not self.shown[rank]:
                continue
            name = _channel_name(self._graph, int(first[channel]))
            yield TrackDescriptor(uuid=base + row, parent_uuid=self.rank(rank), name=name, sibling_order_rank=row)


def _channel_name(graph: Graph, op: int) -> str:
    group: str = graph.groups[graph.ops["group"][op]].name
    if graph.ops["kind"][op] != OpKind.SEND_RECV:
        return group
    ends = graph.posts[graph.post_ptr[op] : graph.post_ptr[op + 1]]
    sender, receiver = graph.lanes["rank"][np.searchsorted(graph.lane_ptr, ends, side="right") - 1].tolist()
    return f"{group}: {sender} to {receiver}, tag {graph.ops['tag'][op]}"


def _arrows(graph: Graph, timeline: Timeline, table: Table, tracks: _Tracks) -> dict[int, int]:
    """For each WAIT segment (row of `table`) that another rank's post ended: that post, as a row of `graph.posts`.

    Only posts of ranks that are shown.
    """
    if not len(graph.ops):
        return {}
    posted = timeline.node_end[graph.posts]
    op_of = np.repeat(np.arange(len(graph.ops)), np.diff(graph.post_ptr))
    order = np.lexsort((-np.arange(len(posted)), posted, op_of))  # ties go to the lowest group rank
    last = order[graph.post_ptr[1:] - 1]
    rows = np.flatnonzero((table["state"] == State.WAIT) & (table["op"] >= 0))
    post = last[table["op"][rows]]
    rank_of = graph.node_rank()
    other = rank_of[graph.posts[post]] != rank_of[table["node"][rows]]
    late = other & (posted[post] > table["start"][rows]) & tracks.shown[rank_of[graph.posts[post]]]
    return dict(zip(rows[late].tolist(), post[late].tolist(), strict=True))


def _last_posts(graph: Graph, timeline: Timeline, tracks: _Tracks, arrows: dict[int, int]) -> Iterator[_Event]:
    started: dict[int, list[int]] = {}
    for row, post in arrows.items():
        started.setdefault(post, []).append(row + 1)
    lanes = graph.node_lane()
    for post, ids in sorted(started.items()):
        node, op = int(graph.posts[post]), int(tracks.post_op[post])
        name, at, track = f"last to post {op_name(graph, op)}", int(timeline.node_end[node]), tracks.lane(lanes[node])
        yield _Event(at, track, TrackEvent.TYPE_INSTANT, name, _args(graph, node, op), starts=tuple(ids))


def _marks(graph: Graph, timeline: Timeline, tracks: _Tracks) -> Iterator[_Event]:
    lanes = graph.node_lane()
    for node in np.flatnonzero((graph.nodes["kind"] == NodeKind.MARK) & tracks.lane_shown[lanes]).tolist():
        name = f"end of iteration {graph.nodes['ref'][node]}"
        yield _Event(int(timeline.node_end[node]), tracks.lane(lanes[node]), TrackEvent.TYPE_INSTANT, name)


def _lane_slices(graph: Graph, tracks: _Tracks, table: Table, arrows: dict[int, int]) -> Iterator[_Event]:
    for row, (lane, state, node, op, start, end) in enumerate(table.tolist()):
        track, name = tracks.lane(lane), _segment_name(graph, State(state), op)
        # The COMM segment of an op follows its WAIT, and is where that wait's arrow lands.
        ends = (row,) if row - 1 in arrows else ()
        yield _Event(start, track, TrackEvent.TYPE_SLICE_BEGIN, name, _args(graph, node, op), ends=ends)
        yield _Event(end, track, TrackEvent.TYPE_SLICE_END)


def _segment_name(graph: Graph, state: State, op: int) -> str:
    match state:
        case State.COMPUTE:
            return "compute"
        case State.COMM:
            return op_name(graph, op)
        case State.WAIT:
            return "wait for peers" if op >= 0 else "wait for event"


def _channel_slices(graph: Graph, timeline: Timeline, tracks: _Tracks) -> Iterator[_Event]:
    start, end = timeline.op_start.tolist(), timeline.op_end.tolist()
    shown = tracks.shown[graph.node_rank()[graph.posts]]
    posts = zip(*(column[shown].tolist() for column in (graph.posts, tracks.post_op, tracks.post_track)), strict=True)
    for node, op, track in posts:
        yield _Event(start[op], track, TrackEvent.TYPE_SLICE_BEGIN, op_name(graph, op), _args(graph, node, op))
        yield _Event(end[op], track, TrackEvent.TYPE_SLICE_END)


def _args(graph: Graph, node: int, op: int) -> dict[str, int | str]:
    args: dict[str, int | str] = {}
    if op >= 0:
        row = graph.ops[op]
        args = {"bytes": int(row["nbytes"]), "group": graph.groups[row["group"]].name, "seq": int(row["seq"])}
    site = int(graph.nodes["site"][node])
    return args | {"site": graph.sites[site]} if site >= 0 else args


def _packet(packet: TracePacket, event: _Event) -> TracePacket:
    packet.timestamp = event.at
    packet.trusted_packet_sequence_id = _SEQUENCE
    body = packet.track_event
    body.type, body.track_uuid = event.kind, event.track
    if event.name:
        body.name = event.name
    body.flow_ids.extend(event.starts)
    body.terminating_flow_ids.extend(event.ends)
    for name, value in event.args.items():
        note = body.debug_annotations.add(name=name)
        if isinstance(value, int):
            note.int_value = value
        else:
            note.string_value = value
    return packet
