"""The Perfetto trace, read back with Perfetto's own messages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent
from report.tiny import long_job, tiny_job

from prism.core.graph import Graph, Timeline
from prism.report import perfetto
from prism.report.perfetto import write_perfetto


class Slice(NamedTuple):
    name: str
    start: int
    end: int


def written(path: Path, graph: Graph, timeline: Timeline) -> Trace:
    write_perfetto(path / "timeline.pftrace", graph, timeline)
    trace = Trace()
    trace.ParseFromString((path / "timeline.pftrace").read_bytes())
    return trace


def track_names(trace: Trace) -> dict[int, tuple[str, ...]]:
    """The path of names from the process to each track."""
    names: dict[int, tuple[str, ...]] = {}
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            name = track.process.process_name or track.thread.thread_name or track.name
            names[track.uuid] = (*names.get(track.parent_uuid, ()), name)
    return names


def events(trace: Trace) -> list[tuple[int, tuple[str, ...], TrackEvent]]:
    names = track_names(trace)
    return [
        (packet.timestamp, names[packet.track_event.track_uuid], packet.track_event)
        for packet in trace.packet
        if packet.HasField("track_event")
    ]


def slices(trace: Trace) -> dict[tuple[str, ...], list[Slice]]:
    """The slices of every track; fails unless each end has its begin."""
    found: dict[tuple[str, ...], list[Slice]] = {}
    opened: dict[tuple[str, ...], list[tuple[str, int]]] = {}
    for at, track, event in events(trace):
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            opened.setdefault(track, []).append((event.name, at))
        elif event.type == TrackEvent.TYPE_SLICE_END:
            found.setdefault(track, []).append(Slice(*opened[track].pop(), at))
    assert not any(opened.values())
    return found


def test_every_lane_and_every_channel_of_a_rank_has_its_slices(tmp_path: Path) -> None:
    channels = {
        "world": [Slice("all_reduce", 20_000, 25_000)],
        "world: 1 to 0, tag 7": [Slice("send_recv", 30_000, 40_000)],
    }
    assert slices(written(tmp_path, *tiny_job())) == {
        ("rank 0", "host"): [
            Slice("compute", 0, 10_000),
            Slice("wait for peers", 10_000, 20_000),
            Slice("all_reduce", 20_000, 25_000),
            Slice("wait for peers", 25_000, 30_000),
            Slice("send_recv", 30_000, 40_000),
        ],
        ("rank 1", "host"): [
            Slice("compute", 0, 20_000),
            Slice("all_reduce", 20_000, 25_000),
            Slice("compute", 25_000, 30_000),
            Slice("send_recv", 30_000, 40_000),
        ],
        **{(f"rank {rank}", name): found for rank in (0, 1) for name, found in channels.items()},
    }


def test_iterations_end_in_an_instant_on_each_rank(tmp_path: Path) -> None:
    marks = [
        (at, track)
        for at, track, event in events(written(tmp_path, *tiny_job()))
        if event.type == TrackEvent.TYPE_INSTANT and event.name == "end of iteration 0"
    ]
    assert marks == [(40_000, ("rank 0", "host")), (40_000, ("rank 1", "host"))]


def test_arrows_lead_from_the_last_post_to_the_ranks_that_waited_for_it(tmp_path: Path) -> None:
    found = events(written(tmp_path, *tiny_job()))
    starts = {flow: (i, at, track, e.name) for i, (at, track, e) in enumerate(found) for flow in e.flow_ids}
    ends = {flow: (i, at, track, e.name) for i, (at, track, e) in enumerate(found) for flow in e.terminating_flow_ids}
    assert starts.keys() == ends.keys()
    assert [(starts[flow][1:], ends[flow][1:]) for flow in starts] == [
        (
            (20_000, ("rank 1", "host"), "last to post all_reduce"),
            (20_000, ("rank 0", "host"), "all_reduce"),
        ),
        (
            (30_000, ("rank 1", "host"), "last to post send_recv"),
            (30_000, ("rank 0", "host"), "send_recv"),
        ),
    ]
    assert all(starts[flow][0] < ends[flow][0] for flow in starts), "at equal times the file's order decides"


def test_an_arrow_lands_even_where_the_op_costs_nothing(tmp_path: Path) -> None:
    trace = written(tmp_path, *tiny_job(recv_end=30))
    assert slices(trace)["rank 0", "host"][-1] == Slice("send_recv", 30_000, 30_000)
    assert sum(len(event.terminating_flow_ids) for _, _, event in events(trace)) == 2


def test_slices_of_an_op_say_what_it_is_and_where_it_was_called(tmp_path: Path) -> None:
    said = {
        (track, event.name): {note.name: note.string_value or note.int_value for note in event.debug_annotations}
        for _, track, event in events(written(tmp_path, *tiny_job()))
    }
    assert said[("rank 0", "host"), "send_recv"] == {"bytes": 512, "group": "world", "seq": 0, "site": "train.py:11"}
    assert said[("rank 1", "world"), "all_reduce"] == {"bytes": 4096, "group": "world", "seq": 0, "site": "train.py:9"}
    assert said[("rank 0", "host"), "compute"] == {}


def test_streams_of_a_device_wait_for_events_and_no_arrow_is_drawn(tmp_path: Path) -> None:
    found = slices(written(tmp_path, *long_job(ranks=2, pieces=4)))
    assert sorted(found) == [("rank 0", "compute"), ("rank 1", "compute")]
    assert [piece.name for piece in found["rank 1", "compute"]] == ["compute", "wait for event"] * 2


def test_packets_are_in_the_order_of_time_and_equal_jobs_give_equal_bytes(tmp_path: Path) -> None:
    times = [at for at, _, _ in events(written(tmp_path, *tiny_job()))]
    assert times == sorted(times)
    first = (tmp_path / "timeline.pftrace").read_bytes()
    write_perfetto(tmp_path / "again.pftrace", *tiny_job())
    assert (tmp_path / "again.pftrace").read_bytes() == first


def test_process_zero_is_left_to_the_idle_task(tmp_path: Path) -> None:
    processes = [
        p.track_descriptor.process for p in written(tmp_path, *tiny_job()).packet if p.HasField("track_descriptor")
    ]
    assert [p.pid for p in processes if p.process_name] == [1, 2]


def test_of_a_large_world_ranks_that_do_alike_are_shown_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perfetto, "MAX_RANKS", 2)
    graph, timeline = long_job(ranks=1, pieces=6)
    four = replace(
        graph,
        world_size=4,
        lanes=np.concatenate([graph.lanes] * 4),
        lane_ptr=6 * np.arange(5),
        nodes=np.concatenate([graph.nodes] * 4),
    )
    four.lanes["rank"] = range(4)
    start, end = np.tile(timeline.node_start, 4), np.tile(timeline.node_end, 4)
    start[18:], end[18:] = start[18:] + 1, end[18:] + 1  # rank 3 is later
    trace = written(tmp_path, four, replace(timeline, node_start=start, node_end=end))
    assert {names[0] for names in track_names(trace).values()} == {"rank 0 and 2 alike", "rank 3"}
    assert {names[0] for names in slices(trace)} == {"rank 0 and 2 alike", "rank 3"}
