"""Placement by traffic: ranks that talk most are gathered, work runs where its bytes are; never do more bytes cross."""

from __future__ import annotations

import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from prism.core.graph import OpKind
from prism.core.placement import deal, place
from prism.core.traffic import Talk, crossing, talks
from tests.core.jobs import Job, pipeline


def two_meshes() -> Job:
    """Four nodes of two ranks, which sum with those at their place in the other nodes; one sends to its neighbour."""
    job = Job(8)
    groups = [job.group((place, place + 2, place + 4, place + 6)) for place in (0, 1)]
    for rank in range(8):
        job.post(rank, OpKind.ALL_REDUCE, 100, groups[rank % 2])
        job.post(rank, OpKind.ALL_REDUCE, 1)
        job.post(rank, OpKind.BARRIER)
    for _ in range(2):
        job.send(0, 1, 7)
        job.recv(1, 0, 7)
    return job


def test_what_ranks_say_to_each_other_is_added_up_by_who_takes_part() -> None:
    graph = two_meshes().graph()
    assert talks(graph, range(8)) == [
        Talk((0, 1), 14), Talk(tuple(range(8)), 1), Talk((0, 2, 4, 6), 100), Talk((1, 3, 5, 7), 100),
    ]  # fmt: skip
    assert talks(graph, (1, 2, 4)) == [Talk((1, 2, 4), 1), Talk((2, 4), 100)]


def test_groups_that_cut_across_nodes_are_gathered() -> None:
    """Of both groups half of the bytes cross by nodes, and none by traffic; the message does then."""
    known = talks(two_meshes().graph(), range(8))
    by_nodes, by_traffic = place(range(8), 2, 2), place(range(8), 2, 2, known)
    assert by_nodes == {0: 0, 1: 0, 2: 1, 3: 1, 4: 0, 5: 0, 6: 1, 7: 1}
    assert by_traffic == {0: 0, 2: 0, 4: 0, 6: 0, 1: 1, 3: 1, 5: 1, 7: 1}
    assert (crossing(known, by_nodes), crossing(known, by_traffic)) == (404, 18)


def test_nodes_stay_together_where_nothing_is_gained() -> None:
    known = [Talk((0, 1), 5), Talk((2, 3), 5), Talk((0, 1, 2, 3), 9)]
    assert place(range(4), 2, 2, known) == place(range(4), 2, 2)


def test_stages_that_send_to_each_other_are_neighbours() -> None:
    """A pipeline of 8, dealt to nodes in turns, is cut in one place instead of seven."""
    known = talks(pipeline(8, 2), range(8))
    by_nodes, by_traffic = place(range(8), 1, 2), place(range(8), 1, 2, known)
    assert crossing(known, by_nodes) == 7 * crossing(known, by_traffic) > 0


@st.composite
def traffic(draw: st.DrawFn) -> tuple[int, list[Talk]]:
    size = draw(st.integers(2, 24))
    ranks = st.lists(st.integers(0, size - 1), min_size=2, max_size=8, unique=True)
    found = draw(st.lists(st.tuples(ranks, st.integers(1, 1000)), min_size=1, max_size=20))
    return size, [Talk(tuple(sorted(members)), nbytes) for members, nbytes in found]


@given(traffic(), st.integers(1, 9), st.integers(1, 6))
def test_never_do_more_bytes_cross_and_each_worker_has_its_share(
    known: tuple[int, list[Talk]], per_node: int, workers: int
) -> None:
    size, said = known
    by_nodes, by_traffic = place(range(size), per_node, workers), place(range(size), per_node, workers, said)
    assert crossing(said, by_traffic) <= crossing(said, by_nodes)
    assert list(by_traffic) == list(range(size))
    assert Counter(by_traffic.values()) == Counter(by_nodes.values())
    assert place(range(size), per_node, workers, said) == by_traffic


# -- work and what it needs ------------------------------------------------------------------------------------------


def brought(held: list[dict[int, int]], dealt: list[int]) -> int:
    return sum(sum(of.values()) - of.get(worker, 0) for of, worker in zip(held, dealt, strict=True))


def test_work_runs_where_its_bytes_are() -> None:
    assert deal([{1: 5}, {0: 5}, {2: 1, 0: 9}, {2: 5}], 3) == [1, 0, 0, 2]


def test_who_loses_least_makes_room_for_the_others() -> None:
    assert deal([{0: 9}, {0: 8, 1: 7}, {0: 7}, {1: 1, 2: 9}], 2) == [0, 1, 0, 1]


def test_a_chain_of_moves_is_cheaper_than_the_move_that_is_seen_first() -> None:
    held = [{0: 10}, {0: 10, 1: 9}, {1: 10, 2: 9}]
    assert deal(held, 3) == [0, 1, 2]


def test_no_work_is_dealt_to_nobody() -> None:
    assert deal([], 3) == []


@given(st.lists(st.dictionaries(st.integers(0, 2), st.integers(0, 9), max_size=3), max_size=6), st.integers(1, 3))
def test_no_other_way_brings_fewer_bytes(held: list[dict[int, int]], workers: int) -> None:
    held = [{worker: nbytes for worker, nbytes in of.items() if worker < workers} for of in held]
    dealt, share = deal(held, workers), -(-len(held) // workers)
    ways = [list(way) for way in itertools.product(range(workers), repeat=len(held))]
    fair = [way for way in ways if all(count <= share for count in Counter(way).values())]
    assert dealt in fair
    assert brought(held, dealt) == min(brought(held, way) for way in fair)
