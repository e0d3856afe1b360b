"""The Chakra traces, read back and run: what they say, and that the simulator's rules hold on all of it."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from report.chakra_reader import COLL, COMP, RECV, SEND, Node, check_rules, read_job, read_trace, run
from report.tiny import tiny_job

from prism.core.graph import Graph, OpKind, Stream
from prism.core.timeline.replay import evaluate, make_plan
from prism.report.chakra import LEAST, write_chakra
from tests.core.jobs import MIB, Handle, Job, data_parallel, expert_parallel, pipeline, two_dimensional


def written(folder: Path, graph: Graph, cost: int = 1000) -> tuple[dict[str, list[int]], list[list[Node]]]:
    costs = np.full(len(graph.ops), cost, np.int64)
    write_chakra(folder, graph, evaluate(make_plan(graph), graph.nodes["duration"], costs))
    groups, job = read_job(folder)
    check_rules(groups, job)
    return groups, job


def collective(
    path: Path, kind: OpKind, nbytes: int, root: int = -1, splits: tuple[int, ...] = ()
) -> dict[str, int | str]:
    """What a collective of four ranks is told as."""
    job = Job(4)
    for rank in range(4):
        job.wait(rank, job.post(rank, kind, nbytes, 0, root, splits))
    _, traces = written(path, job.graph())
    (one,) = (one for one in traces[2] if one.type == COLL)
    return one.attributes


def test_a_rank_tells_what_it_does_after_what(tmp_path: Path) -> None:
    write_chakra(tmp_path, *tiny_job())
    assert read_trace(tmp_path / "trace.1.et") == [
        Node(0, "begin", COMP, frozenset(), 0, {}),
        Node(1, "compute", COMP, frozenset({0}), 20, {}),
        Node(2, "all_reduce", COLL, frozenset({1}), 0, {"comm_type": 0, "comm_size": 4096, "pg_name": "1"}),
        Node(3, "compute", COMP, frozenset({2}), 5, {}),
        Node(4, "send_recv", SEND, frozenset({2, 3}), 0, {"comm_dst": 0, "comm_tag": 1, "comm_size": 512}),
    ]
    assert read_trace(tmp_path / "trace.0.et")[-1] == Node(
        3, "send_recv", RECV, frozenset({2}), 0, {"comm_src": 1, "comm_tag": 1, "comm_size": 512}
    )
    assert (tmp_path / "groups.json").read_text() == '{"1": [0, 1]}\n'


@pytest.mark.parametrize(
    ("kind", "root", "comm_type", "comm_size"),
    [
        (OpKind.ALL_REDUCE, -1, 0, MIB),
        (OpKind.REDUCE_SCATTER, -1, 7, MIB),
        (OpKind.ALL_GATHER, -1, 2, MIB),
        (OpKind.BROADCAST, 1, 2, MIB // 4),
        (OpKind.REDUCE, 1, 7, MIB),
        (OpKind.GATHER, 1, 2, MIB),
        (OpKind.SCATTER, 1, 7, MIB),
        (OpKind.BARRIER, -1, 0, 4 * LEAST),
    ],
)
def test_every_collective_is_told_as_one_of_four(
    tmp_path: Path, kind: OpKind, root: int, comm_type: int, comm_size: int
) -> None:
    told = {"comm_type": comm_type, "comm_size": comm_size, "pg_name": "1"}
    assert collective(tmp_path, kind, MIB, root) == told


def test_an_even_all_to_all_is_one_and_a_tiny_collective_can_be_cut(tmp_path: Path) -> None:
    assert collective(tmp_path, OpKind.ALL_TO_ALL, 4096, splits=(1024,) * 16)["comm_type"] == 6
    assert collective(tmp_path, OpKind.ALL_REDUCE, 4)["comm_size"] == 4 * LEAST


def test_an_uneven_all_to_all_is_told_as_messages(tmp_path: Path) -> None:
    job = Job(3)
    for rank in range(3):
        job.wait(rank, job.post(rank, OpKind.ALL_TO_ALL, 9, splits=(9, 0, 1, 2, 9, 0, 0, 0, 9)))
        job.compute(rank, 5000)
    _, traces = written(tmp_path, job.graph())
    assert [(one.type, one.attributes.get("comm_size"), sorted(one.needs)) for one in traces[0]] == [
        (COMP, None, []),
        (SEND, 1, [0]),
        (RECV, 2, [0]),
        (COMP, None, [1, 2]),
    ]
    assert [one.type for one in traces[2]] == [COMP, RECV, COMP]


def test_computing_goes_on_beside_what_is_not_waited_for(tmp_path: Path) -> None:
    job = Job(2)
    for rank in (0, 1):
        handle = job.post(rank, OpKind.ALL_REDUCE, MIB)
        job.compute(rank, 3000)
        job.wait(rank, handle)
        job.compute(rank, 4000)
    _, traces = written(tmp_path, job.graph())
    assert [sorted(one.needs) for one in traces[0]] == [[], [0], [0], [1, 2]]


def test_what_stays_on_a_rank_is_left_out_and_every_rank_has_a_node(tmp_path: Path) -> None:
    job = Job(2)
    alone = job.group((0,))
    job.wait(0, job.post(0, OpKind.ALL_REDUCE, MIB, alone))
    job.send(0, 1, 8)
    job.wait(1, job.recv(1, 0, 8))
    graph = job.graph()
    lanes = graph.lanes.copy()
    lanes[1] = (0, Stream.COMPUTE, 0)  # so the message is from rank 0 to itself, and rank 1 has no lane
    groups, traces = written(tmp_path, replace(graph, lanes=lanes))
    assert groups == {"1": [0, 1]}
    assert [[one.name for one in nodes] for nodes in traces] == [["begin"], ["begin"]]


def test_short_computing_adds_up(tmp_path: Path) -> None:
    job = Job(1)
    for _ in range(30):
        job.compute(0, 700)
    _, traces = written(tmp_path, job.graph())
    assert sum(one.micros for one in traces[0]) == 21
    assert all(one.micros for one in traces[0][1:])


def test_streams_of_a_rank_wait_for_one_another(tmp_path: Path) -> None:
    job = Job(1)
    job.compute(0, 2000)
    event = job.record(0)
    job.compute(0, 9000)
    job.lane(0, Stream.COMPUTE)
    job.wait_event(0, event)
    job.compute(0, 1000)
    _, traces = written(tmp_path, job.graph())
    micros = {one.micros: sorted(one.needs) for one in traces[0]}
    assert micros == {0: [], 2: [0], 1: [1], 9: [1]}


def test_groups_used_in_different_orders_do_not_end_in_a_deadlock(tmp_path: Path) -> None:
    job = Job(2)
    other = job.group((0, 1))
    for rank, order in ((0, (0, other)), (1, (other, 0))):
        handles = [job.post(rank, OpKind.ALL_REDUCE, MIB, group) for group in order]
        job.wait(rank, *handles)
    groups, traces = written(tmp_path, job.graph())
    assert [sorted(names) for names in run(groups, traces)] == [["all_reduce", "all_reduce", "begin"]] * 2


def test_a_message_that_a_collective_needs_is_not_kept_behind_it(tmp_path: Path) -> None:
    job = Job(2)
    job.post(0, OpKind.ALL_REDUCE, MIB)
    job.send(0, 1, 8)
    job.wait(1, job.recv(1, 0, 8))
    job.post(1, OpKind.ALL_REDUCE, MIB)
    assert run(*written(tmp_path, job.graph()))[0] == ["begin", "send_recv", "all_reduce"]


@pytest.mark.parametrize("graph", [data_parallel(4), pipeline(4, 6), expert_parallel(4), two_dimensional(2, 3)])
@pytest.mark.parametrize("cost", [0, 10_000])
def test_whole_jobs_come_to_their_end(tmp_path: Path, graph: Graph, cost: int) -> None:
    run(*written(tmp_path, graph, cost))


@pytest.mark.parametrize("seed", range(20))
def test_random_jobs_come_to_their_end(tmp_path: Path, seed: int) -> None:
    run(*written(tmp_path, _random_job(random.Random(seed)), cost=random.Random(seed).choice((0, 3000))))


def _random_job(rng: random.Random) -> Graph:
    """Ops in one order for all ranks, of which a rank posts neighbours in another, and waits for some time later."""
    job = Job(4)
    groups = [0, *(job.group(rng.sample(range(4), rng.choice((2, 3)))) for _ in range(3))]
    open_at: dict[int, list[Handle]] = {rank: [] for rank in range(4)}
    for _ in range(12):
        posts: dict[int, list[tuple[int, int, int]]] = {rank: [] for rank in range(4)}
        for group in rng.sample(groups, 2):
            for rank in job.groups[group].ranks:
                posts[rank].append((group, -1, -1))
        source, target = rng.sample(range(4), 2)
        posts[source].append((0, source, target))
        posts[target].append((0, source, target))
        for rank, ones in posts.items():
            rng.shuffle(ones)
            for group, sender, receiver in ones:
                job.compute(rank, rng.choice((0, 400, 5000)))
                if sender < 0:
                    open_at[rank].append(job.post(rank, OpKind.ALL_REDUCE, MIB, group))
                elif rank == sender:
                    open_at[rank].append(job.send(rank, receiver, 8))
                else:
                    open_at[rank].append(job.recv(rank, sender, 8))
            if rng.random() < 0.5:
                job.wait(rank, *open_at[rank])
                open_at[rank].clear()
    return job.graph()


def test_equal_jobs_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_chakra(tmp_path / name, *tiny_job())
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
