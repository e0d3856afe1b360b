"""The engine along trees behind its Python binding: results, what is moved, and when."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch

from prism.core.graph import OpKind
from prism.gpu.group.fold import NATIVE_DTYPES
from tests.core.double_tree import parents
from tests.gpu.folding import rows, same

pytest.importorskip("prism.gpu.pruned", exc_type=ImportError)
from prism.gpu.pruned import Arc, Branches, Contribution, Member, Op
from prism.gpu.pruned.plans import branches
from tests.nccl.cast import Cast, address, at_once
from tests.nccl.test_binding import folded

SIZE = 7
SANDBOXES = [(0,), (3,), (6,), (0, 1), (2, 4), (1, 3, 5), (0, 2, 4, 5, 6), tuple(range(SIZE))]
NODES = [(), (0, 0, 0, 1, 1, 2, 2)]


def tree(count: int, dtype: str = "float32", reduce: str = "sum", size: int = SIZE) -> Op:
    return Op(OpKind.ALL_REDUCE, size, dtype, reduce, count=count, tree=True)


@pytest.mark.parametrize("nodes", NODES)
@pytest.mark.parametrize("sandbox", SANDBOXES[:-1])
@pytest.mark.parametrize("reduce", ["sum", "avg"])
def test_exact_contributions_give_the_bits_of_the_capture(
    tmp_path: Path, reduce: str, sandbox: tuple[int, ...], nodes: tuple[int, ...]
) -> None:
    cast = Cast(tmp_path, SIZE, sandbox, nodes=nodes)
    for dtype in sorted(NATIVE_DTYPES - ({"bool"} if reduce == "avg" else set())):
        given = rows(getattr(torch, dtype), size=SIZE)
        result = folded(tmp_path, OpKind.ALL_REDUCE, given, reduce)
        mine = {rank: given[rank].clone() for rank in sandbox}
        cast.run(tree(len(given[0]), dtype, reduce), mine, mine, Contribution.exact(0, address(result)))
        assert all(same(mine[rank], result) for rank in sandbox), dtype


@pytest.mark.parametrize("nodes", NODES)
@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_live_contributions_give_the_result_but_for_rounding(
    tmp_path: Path, sandbox: tuple[int, ...], nodes: tuple[int, ...]
) -> None:
    cast = Cast(tmp_path, SIZE, sandbox, nodes=nodes)
    for dtype, reduce in (("float64", "sum"), ("float64", "avg"), ("int64", "sum"), ("int64", "avg")):
        given = rows(getattr(torch, dtype), size=SIZE)
        result = folded(tmp_path, OpKind.ALL_REDUCE, given, reduce)
        brought = [row * (1 / SIZE) if reduce == "avg" and row.is_floating_point() else row for row in given]
        rest = torch.zeros_like(given[0])
        for rank in frozenset(range(SIZE)) - frozenset(sandbox):
            rest += brought[rank]
        mine = {rank: given[rank].clone() for rank in sandbox}
        cast.run(tree(len(rest), dtype, reduce), mine, mine, Contribution.left(address(rest), 0))
        for rank in sandbox:
            assert torch.equal(mine[rank], mine[sandbox[0]])
            torch.testing.assert_close(mine[rank], result, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("sandbox", SANDBOXES[:-1])
def test_replicas_have_the_input_of_the_member_that_keeps_their_branch(
    tmp_path: Path, sandbox: tuple[int, ...]
) -> None:
    cast = Cast(tmp_path, SIZE, sandbox, replicas=True)
    for value in (1, 2):  # the published input is written again
        mine = {rank: torch.full((9,), value, dtype=torch.int64) for rank in sandbox}
        cast.run(tree(9, "int64"), mine, mine, Contribution.replicas())
        assert all(mine[rank].tolist() == [SIZE * value] * 9 for rank in sandbox)
        cast.run(Op(OpKind.ALL_REDUCE, SIZE, "int64", "sum", count=9), mine, mine, Contribution.replicas())
        assert all(mine[rank].tolist() == [SIZE * SIZE * value] * 9 for rank in sandbox)


def test_zeros_bring_nothing(tmp_path: Path) -> None:
    mine = {rank: torch.ones(40) for rank in (1, 4)}
    Cast(tmp_path, SIZE, (1, 4)).run(tree(40), mine, mine)
    assert all(mine[rank].tolist() == [2.0] * 40 for rank in mine)


@pytest.mark.parametrize("size", [2, 3, 8, 100, 1024, 8192])
@pytest.mark.parametrize("real", [1, 2, 3])
def test_what_a_member_moves_is_what_the_trees_of_all_ranks_have_it_move(tmp_path: Path, size: int, real: int) -> None:
    sandbox = sorted([{size // 2}, {size // 2, 0}, {size // 2, 0, size - 1}][real - 1])
    count, halves = 300_002, (150_004, 149_998)  # whole units of 16 bytes; two chunks each
    edges = [[0, 0] for _ in range(size)]
    for number, parent in enumerate(parents(size)):
        for node, above in enumerate(parent):
            for end in (node, above) if above >= 0 else ():
                edges[end][number] += 1
    mine = {rank: torch.ones(count) for rank in sandbox}
    moved = Cast(tmp_path, size, sandbox).run(tree(count, size=size), mine, mine)
    for rank in sandbox:
        nbytes = 4 * sum(half * degree for half, degree in zip(halves, edges[rank], strict=True))
        assert tuple(moved[rank]) == (2 * sum(edges[rank]), nbytes, nbytes)


def test_branches_say_what_they_are() -> None:
    # 0 - 4 - {2, 6}, 2 - {1, 3}, 6 - {5, 7}, and the same in a mirror.
    found = branches(8, (4,), 4)
    assert [(branch.tree, branch.top, branch.above, branch.members) for branch in found] == [
        (0, 2, 4, 3), (0, 6, 4, 3), (0, 0, -1, 1), (1, 7, -1, 7),
    ]  # fmt: skip
    assert [branch.below for branch in found] == [0, 0, 1, 1]
    assert [branch.carries for branch in found] == [False, False, True, True]
    assert branches(8, (4, 6), 6) == [branch for branch in branches(8, (4, 6), 6) if branch.above == 6]


def test_no_result_is_there_before_its_time(tmp_path: Path) -> None:
    post = time.monotonic_ns() + 20_000_000
    mine = {rank: torch.ones(100) for rank in (1, 4)}
    cost = 7_000_000
    Cast(tmp_path, 8, (1, 4)).run(tree(100, size=8), mine, mine, pace=lambda who: at_once(who, cost, cost, post))
    assert time.monotonic_ns() >= post + cost


def test_what_there_is_not(tmp_path: Path) -> None:
    with Member(tmp_path, "g", 4, (0,), 0) as member, pytest.raises(ValueError, match="only an all_reduce"):
        member.run(Op(OpKind.ALL_GATHER, 4, "int8", count=1, tree=True))
    with Arc(tmp_path, "g", 4, (0,), 0) as arc, pytest.raises(ValueError, match="branches'"):
        arc.run(tree(1, size=4), Contribution.zeros())
    with Branches(tmp_path, "g", 4, (0,), 0) as kept, pytest.raises(ValueError, match="along trees only"):
        kept.run(Op(OpKind.ALL_REDUCE, 4, "int8", "sum", count=1), Contribution.zeros())
    with Branches(tmp_path, "g", 4, (0,), 0) as kept, pytest.raises(ValueError, match="2 posts for 4 members"):
        kept.run(tree(1, size=4), Contribution.zeros(), at_once((1, 2)))
    with pytest.raises(ValueError, match="nodes has 2 entries for 4 members"):
        Member(tmp_path, "g", 4, (0,), 0, nodes=(0, 1))
