"""Tables of measured costs: read from both formats, between the points, and beyond them."""

from __future__ import annotations

import numpy as np
import pytest

from prism.core.graph import Graph, OpKind
from prism.core.timeline.measured import InvalidTable, measured_costs, parse_table
from prism.core.timeline.network import LinkClass, Network, op_costs
from tests.core.jobs import Job

NETWORK = Network("alpha-beta", LinkClass(2_000_000_000, 10), LinkClass(1_000_000_000, 1000))
HEADER = "collective,group_size,link,bytes,time_us\n"
TABLE = HEADER + (
    "all_reduce,2,intra_node,1000,10\nall_reduce,2,intra_node,100000,1000\n"
    "all_reduce,8,intra_node,1000,40\nall_reduce,8,intra_node,100000,4000\n"
)

NCCL = """\
# nccl-tests version 2.17.6 nccl-headers=22807 nccl-library=22807
# Collective test starting: {program}_perf
# nThread 1 nGpus 1 minBytes 1024 maxBytes 1048576 step: 1024(factor) warmup iters: 1 iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid   1946 on   {first} device  0 [0000:0f:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   1947 on   {second} device  1 [0000:15:00] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
        1024           256     float     sum      -1    12.50    0.08    0.08       0    11.00    0.09    0.09     N/A
     1048576        262144     float     sum      -1   125.00    8.39    8.39       0   120.00    8.74    8.74       0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 4.3
"""


def job(kind: OpKind, *sizes: int, members: int = 2, splits: tuple[int, ...] = ()) -> Graph:
    made = Job(members)
    for rank in range(members):
        for nbytes in sizes:
            made.post(rank, kind, nbytes, splits=splits)
    return made.graph()


def totals(table: str, graph: Graph, ranks_per_node: int = 8) -> tuple[list[int], list[str]]:
    costs, notes = measured_costs(graph, parse_table(table), NETWORK, ranks_per_node)
    return costs.total.tolist(), notes


def test_a_measured_size_costs_what_was_measured() -> None:
    assert totals(TABLE, job(OpKind.ALL_REDUCE, 1000, 100_000)) == ([10_000, 1_000_000], [])


def test_between_sizes_and_numbers_of_members_in_logarithms() -> None:
    assert totals(TABLE, job(OpKind.ALL_REDUCE, 10_000)) == ([100_000], [])
    assert totals(TABLE, job(OpKind.ALL_REDUCE, 10_000, members=4)) == ([200_000], [])
    assert totals(TABLE, job(OpKind.ALL_REDUCE, 10_000, members=8)) == ([400_000], [])


def test_beyond_the_sizes_latency_or_bandwidth_alone_counts_and_it_is_said() -> None:
    costs, notes = totals(TABLE, job(OpKind.ALL_REDUCE, 0, 300_000))
    assert costs == [10_000, 3_000_000]
    assert notes == ["all_reduce (intra_node): extrapolated for 0 to 300000 bytes, measured 1000 to 100000"]


def test_beyond_the_numbers_of_members_the_nearest_curve_holds_and_it_is_said() -> None:
    costs, notes = totals(TABLE, job(OpKind.ALL_REDUCE, 1000, members=16), ranks_per_node=16)
    assert costs == [40_000]
    assert notes == ["all_reduce (intra_node): extrapolated for 16 to 16 members, measured 2 to 8"]


def test_what_the_table_lacks_costs_what_the_model_says() -> None:
    graph = job(OpKind.BARRIER, 0)
    costs, notes = totals(TABLE, graph)
    assert costs == op_costs(graph, NETWORK, 8).total.tolist()
    assert notes == ["barrier (intra_node): not in the table of measured costs, the alpha-beta model stands in"]


def test_the_link_class_decides() -> None:
    graph = job(OpKind.ALL_REDUCE, 1000)
    costs, notes = totals(TABLE, graph, ranks_per_node=1)
    assert costs == op_costs(graph, NETWORK, 1).total.tolist()
    assert notes == ["all_reduce (inter_node): not in the table of measured costs, the alpha-beta model stands in"]


def test_the_smallest_size_is_latency() -> None:
    costs, _ = measured_costs(job(OpKind.ALL_REDUCE, 1000, 100_000), parse_table(TABLE), NETWORK, 8)
    assert costs.latency.tolist() == [10_000, 10_000]
    assert costs.transfer.tolist() == [0, 990_000]


def test_a_group_of_one_is_free() -> None:
    assert totals(TABLE, job(OpKind.ALL_REDUCE, 1000, members=1)) == ([0], [])


@pytest.mark.parametrize(
    ("program", "kind", "nbytes", "splits"),
    [
        ("all_reduce", OpKind.ALL_REDUCE, 1024, ()),
        ("reduce_scatter", OpKind.REDUCE_SCATTER, 1024, ()),
        ("all_gather", OpKind.ALL_GATHER, 512, ()),  # the size in the table is what two members gather
        ("broadcast", OpKind.BROADCAST, 1024, ()),
        ("reduce", OpKind.REDUCE, 1024, ()),
        ("gather", OpKind.GATHER, 512, ()),
        ("scatter", OpKind.SCATTER, 1024, ()),
        ("alltoall", OpKind.ALL_TO_ALL, 1024, (512, 512, 512, 512)),
    ],
)
def test_output_of_nccl_tests(program: str, kind: OpKind, nbytes: int, splits: tuple[int, ...]) -> None:
    graph = job(kind, nbytes, splits=splits)
    text = NCCL.format(program=program, first="node-a", second="node-a")
    assert totals(text, graph) == ([12_500], [])
    across = NCCL.format(program=program, first="node-a", second="node-b")
    assert totals(across, graph, ranks_per_node=1) == ([12_500], [])


def test_messages_of_any_number_of_ranks_are_messages() -> None:
    pair = Job(4)
    pair.send(0, 1, 1024)
    pair.recv(1, 0, 1024)
    text = NCCL.format(program="sendrecv", first="node-a", second="node-a")
    assert totals(text, pair.graph()) == ([12_500], [])


def test_runs_one_after_the_other_are_one_table() -> None:
    runs = [NCCL.format(program="all_reduce", first="a", second=second) for second in ("a", "b")]
    slower = NCCL.format(program="reduce", first="a", second="a").replace("12.50", "99.00")
    table = parse_table("\n".join([*runs, slower]))
    assert list(table) == [
        (OpKind.ALL_REDUCE, "intra_node"), (OpKind.ALL_REDUCE, "inter_node"), (OpKind.REDUCE, "intra_node")
    ]  # fmt: skip
    assert table[OpKind.REDUCE, "intra_node"][2].times.tolist() == [99_000, 125_000]


def test_a_size_measured_again_counts_with_its_median() -> None:
    rows = "".join(f"reduce,2,intra_node,8,{time}\n" for time in (1, 2, 30))
    assert parse_table(HEADER + rows)[OpKind.REDUCE, "intra_node"][2].times.tolist() == [2000]


@pytest.mark.parametrize("nbytes", [1, 1000, 12_345, 1 << 33])
def test_costs_grow_with_the_size(nbytes: int) -> None:
    (small, large), _ = totals(TABLE, job(OpKind.ALL_REDUCE, nbytes, 2 * nbytes, members=3))
    assert small <= large <= 2 * small + 1


def test_all_members_at_once_as_one_by_one() -> None:
    made = Job(8)
    groups = [made.group(range(n)) for n in (2, 3, 5, 8)]
    for group, n in zip(groups, (2, 3, 5, 8), strict=True):
        for rank in range(n):
            made.post(rank, OpKind.ALL_REDUCE, 5000, group)
    together, _ = totals(TABLE, made.graph())
    assert together == [totals(TABLE, job(OpKind.ALL_REDUCE, 5000, members=n))[0][0] for n in (2, 3, 5, 8)]
    assert np.all(np.diff(together) > 0)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "no times; expected output of nccl-tests, or CSV: collective,group_size,link,bytes,time_us"),
        (HEADER, 1, "no times"),
        (HEADER + "all_reduce,2,intra_node,8\n", 2, "4 values, expected collective,group_size"),
        (HEADER + "\nallreduce,2,intra_node,8,1\n", 3, "unknown collective 'allreduce', choose from all_reduce"),
        (HEADER + "all_reduce,2,nvlink,8,1\n", 2, "unknown link 'nvlink', choose from intra_node, inter_node"),
        (HEADER + "all_reduce,2,intra_node,8,x\n", 2, "expected numbers, got '2', '8' and 'x'"),
        (HEADER + "all_reduce,2,intra_node,8,0\n", 2, "impossible: 2 members, 8 bytes, 0 us"),
        (NCCL.format(program="hypercube", first="a", second="a"), 12, "no line above it says `NAME_perf`"),
    ],
)
def test_what_is_no_table_is_refused_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(InvalidTable, match=words) as caught:
        parse_table(text)
    assert caught.value.line == line
