"""What the loopback benchmark makes of the times that ranks print."""

from __future__ import annotations

from benchmarks.loopback import Call, Cost, table, times_us
from prism.core.graph import OpKind
from prism.core.timeline.measured import parse_table


def test_a_cost_counts_from_the_last_call_over_the_ranks_that_it_keeps_waiting() -> None:
    first = Call("broadcast", 8, called=1_000, returned=1_500, done=17_000)
    root = Call("broadcast", 8, called=2_000, returned=2_500, done=3_000)
    last = Call("broadcast", 8, called=10_000, returned=10_500, done=13_000)
    assert times_us([root, first, last]) == ((7 + 3) / 2, 7, 0.5)


def test_of_a_message_the_receiver_counts() -> None:
    sender = Call("send_recv", 8, called=9_000, returned=9_100, done=20_000)
    receiver = Call("send_recv", 8, called=1_000, returned=1_200, done=12_000)
    assert times_us([sender, receiver]) == (3, 3, 0.1)


def test_costs_make_a_table_of_measured_costs() -> None:
    costs = [Cost("send_recv", 2, 16, last, cost, cost, 1.0) for last, cost in (("sender", 100.0), ("receiver", 120.0))]
    parsed = parse_table(table([*costs, Cost("barrier", 4, 0, "", 7.0, 8.0, 1.0)]))
    message, barrier = parsed[OpKind.SEND_RECV, "intra_node"], parsed[OpKind.BARRIER, "intra_node"]
    assert (message[2].sizes.tolist(), message[2].times.tolist()) == ([16], [110_000])
    assert (barrier[4].sizes.tolist(), barrier[4].times.tolist()) == ([0], [7_000])
