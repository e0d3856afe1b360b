"""Placement by nodes: they stay together, and all workers get their share."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.core.placement import place
from prism.core.stage.slots import Slots


def test_nodes_are_dealt_out_in_turns() -> None:
    assert place(range(8), 2, 3) == {0: 0, 1: 0, 2: 1, 3: 1, 4: 2, 5: 2, 6: 0, 7: 0}


def test_fewer_nodes_than_workers_are_divided() -> None:
    assert place(range(8), 8, 3) == {0: 0, 1: 0, 2: 0, 3: 1, 4: 1, 5: 1, 6: 2, 7: 2}


def test_only_some_ranks_run() -> None:
    assert place([0, 1, 8, 9], 8, 2) == {0: 0, 1: 0, 8: 1, 9: 1}


@given(st.integers(1, 60), st.integers(1, 9), st.integers(1, 7))
def test_every_rank_has_a_worker_and_none_too_many(size: int, per_node: int, workers: int) -> None:
    placed = place(range(size), per_node, workers)
    assert list(placed) == list(range(size))
    share = Counter(placed.values())
    assert set(share) <= set(range(workers))
    if size >= workers:
        assert len(share) == workers
        assert max(share.values()) - min(share.values()) <= per_node


def test_each_host_has_slots_and_a_line_of_its_own() -> None:
    slots = Slots(1, range(4), {0: 0, 1: 0, 2: 1, 3: 1})
    assert (slots.count, slots.grant(), slots.grant(), slots.grant()) == (2, 0, 2, None)
    assert slots.waiting(0)
    slots.release(2)
    assert slots.grant() == 3
    assert not slots.waiting(3)
    slots.enqueue(2)
    slots.release(0)
    assert slots.grant() == 1
    assert slots.place(2) == 0


@pytest.mark.parametrize("hosts", [None, {0: 0, 1: 0}])
def test_one_host_serves_first_come_first_served(hosts: dict[int, int] | None) -> None:
    slots = Slots(1, range(2), hosts)
    assert slots.grant() == 0
    slots.release(0)
    slots.enqueue(0)
    assert slots.grant() == 1
    slots.release(1)
    assert slots.head == 0
    assert slots.grant() == 0
