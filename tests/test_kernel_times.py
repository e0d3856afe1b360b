"""How kernels of two runs are compared: by name and turn, communication by its role."""

from __future__ import annotations

from typing import Any

from benchmarks.kernel_times import compared

GEMM, ADD = "sm90_gemm", "add_kernel"
NCCL, OURS = (
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage)",
    "void pruned::device::ring_kernel<1>()",
)


def run(*iterations: list[tuple[str, float, float]]) -> list[Any]:
    """One with a warm-up that is like nothing."""
    return [[("other", 0.0, 1.0)], *iterations]


def test_kernels_are_inside_where_the_plain_runs_differ_as_much() -> None:
    plain = [run([(GEMM, 0.0, 10.0), (ADD, 11.0, 2.0)]), run([(GEMM, 0.0, 12.0), (ADD, 13.0, 2.0)])]
    ours = run([(GEMM, 0.0, 11.0), (ADD, 14.0, 2.0)])
    assert compared(plain, ours, 1)["program"] == {"kernels": 2, "starts": 0.5, "durations": 1.0}


def test_the_median_of_our_iterations_counts() -> None:
    plain = [run([(GEMM, 0.0, 10.0)], [(GEMM, 0.0, 12.0)])]
    ours = run(*([(GEMM, 0.0, duration)] for duration in (11.0, 11.5, 90.0)))
    assert compared(plain, ours, 1)["program"]["durations"] == 1.0


def test_kernels_of_several_streams_may_change_places() -> None:
    plain = [run([(GEMM, 0.0, 10.0), (ADD, 1.0, 2.0)]), run([(ADD, 0.0, 2.0), (GEMM, 0.5, 10.0)])]
    assert compared(plain, run([(ADD, 0.5, 2.0), (GEMM, 0.5, 10.0)]), 1)["program"]["durations"] == 1.0


def test_communication_is_compared_by_its_role() -> None:
    plain = [run([(GEMM, 0.0, 9.0), (NCCL, 2.0, 5.0), (NCCL, 9.0, 5.0)])]
    ours = run([(GEMM, 0.0, 9.0), (OURS, 2.0, 5.0), (OURS, 9.0, 6.0)])
    found = compared(plain, ours, 1)
    assert found["communication"] == {"kernels": 2, "starts": 1.0, "durations": 0.5}
    assert found["program"]["kernels"] == 1
    assert found["ms"]["ours"] == {"program": 0.009, "communication": 0.011, "span": 0.015}
    assert found["others"] == {"plain": {}, "ours": {}}


def test_what_only_one_side_has_moves_nothing_and_is_told() -> None:
    plain = [run([(GEMM, 0.0, 9.0), (ADD, 9.0, 1.0), (ADD, 10.0, 1.0)])]
    ours = run([("Memcpy HtoD", 0.0, 3.0), (GEMM, 0.0, 9.0), (ADD, 9.0, 1.0)])
    found = compared(plain, ours, 1)
    assert found["program"] == {"kernels": 3, "starts": 2 / 3, "durations": 2 / 3}
    assert found["others"] == {"plain": {ADD: 1}, "ours": {"Memcpy HtoD": 1}}
