"""Fair shares of links, worked out by hand and by their definition."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from prism.core.timeline.sharing import FULL, Loads, Transfers

HALF = FULL // 2


def test_two_on_one_link_take_twice_as_long() -> None:
    transfers = Transfers([((0, FULL),), ((0, FULL),)])
    transfers.begin(0, 100, 0)
    assert transfers.share(0) == {0: 100}
    transfers.begin(1, 100, 50)
    assert transfers.share(50) == {0: 150, 1: 250}
    transfers.end(0)
    assert transfers.share(150) == {1: 200}


def test_what_one_cannot_use_the_others_get() -> None:
    # 0 is held to a quarter by link 1, which it needs four times; 1 gets the other three quarters of link 0.
    transfers = Transfers([((0, FULL), (1, 4 * FULL)), ((0, FULL),)])
    transfers.begin(0, 100, 0)
    assert transfers.share(0) == {0: 400}
    transfers.begin(1, 300, 0)
    assert transfers.share(0) == {1: 400}


def test_a_share_goes_by_what_is_needed() -> None:
    transfers = Transfers([((0, FULL),), ((0, HALF),)])
    transfers.begin(0, 100, 0)
    transfers.begin(1, 100, 0)
    assert transfers.share(0) == {0: 150, 1: 150}


def test_what_shares_no_link_is_left_alone() -> None:
    transfers = Transfers([((0, FULL),), ((1, FULL),), ()])
    for transfer in (0, 1, 2):
        transfers.begin(transfer, 10, 5 * transfer)
        assert transfers.share(5 * transfer) == {transfer: 5 * transfer + 10}
    transfers.end(0)
    assert transfers.share(10) == {}


def test_what_hangs_together_by_others_is_shared_anew() -> None:
    # 0 and 2 share no link, but when 0 ends, 1 takes what it leaves, and 2 has less.
    transfers = Transfers([((0, 3 * FULL),), ((0, FULL), (1, FULL)), ((1, FULL),)])
    for transfer in range(3):
        transfers.begin(transfer, 300, 0)
    assert transfers.share(0) == {0: 1200, 1: 1200, 2: 400}
    transfers.end(0)
    assert transfers.share(100) == {1: 100 + 550, 2: 100 + 450}


loads = st.dictionaries(st.integers(0, 3), st.integers(1, 2 * FULL), max_size=3)


@settings(deadline=None)  # the machine may be busy
@given(st.lists(loads, min_size=1, max_size=6))
def test_no_link_is_overfull_and_nobody_is_slow_without_a_full_link(rows: list[dict[int, int]]) -> None:
    table: list[Loads] = [tuple(row.items()) for row in rows]
    transfers = Transfers(table)
    work = 10**9
    for number in range(len(table)):
        transfers.begin(number, work, 0)
    ends = transfers.share(0)
    used = dict.fromkeys(range(4), 0.0)
    for number, row in enumerate(table):
        for link, load in row:
            used[link] += load / FULL * work / ends[number]
    assert max(used.values()) <= 1 + 1e-6
    for number, row in enumerate(table):
        assert ends[number] == work or max(used[link] for link, _ in row) > 1 - 1e-6
