"""Operations and groups that there are not: the engine says what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from prism.core.graph import OpKind

pytest.importorskip("prism.gpu.pruned", exc_type=ImportError)
from prism.gpu.pruned import Arc, Contribution, Member, Op, Peers


@pytest.mark.parametrize(
    ("op", "why"),
    [
        (Op(OpKind.SEND_RECV, 4), "Pipe"),
        (Op(OpKind.ALL_REDUCE, 3, "int8", "sum", count=1), "group of 4"),
        (Op(OpKind.ALL_REDUCE, 4, "int8", "sum", count=1), "an input"),
        (Op(OpKind.BROADCAST, 4, "int8", root=1, count=1), "an output"),
        (Op(OpKind.REDUCE, 4, "int8", "sum", 4, count=1), "root 4 is none of the 4 members"),
        (Op(OpKind.REDUCE_SCATTER, 4, "int8", "sum", count=5), "give `sends`"),
        (Op(OpKind.ALL_GATHER, 4, "int8", count=1, receives=(1, 2)), "2 entries for 4 members"),
        (Op(OpKind.ALL_TO_ALL, 4, "int8", sends=(1, 1, 1, -1)), "negative"),
        (Op(OpKind.ALL_REDUCE, 4, "complex64", "sum", count=1), "no such reduction"),
        (Op(OpKind.ALL_GATHER, 4, count=1), "dtype"),
    ],
)
def test_an_operation_that_there_is_not(tmp_path: Path, op: Op, why: str) -> None:
    with Member(tmp_path, "g", 4, (0,), 0) as member, pytest.raises(ValueError, match=why):
        member.run(op)


@pytest.mark.parametrize(
    ("sandbox", "rank", "why"),
    [((0, 1), 2, "member 2 is no sandbox"), ((1, 0), 1, "ascending"), ((0, 4), 0, "ranks"), ((), 0, "ranks")],
)
def test_a_sandbox_that_there_is_not(tmp_path: Path, sandbox: tuple[int, ...], rank: int, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Member(tmp_path, "g", 4, sandbox, rank)


def test_virtual_members_have_a_part_in_operations_of_their_own_kind_only(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no arc"):
        Arc(tmp_path, "g", 4, (0, 1), 0)
    with Arc(tmp_path, "g", 4, (0,), 0) as arc, pytest.raises(ValueError, match="peers"):
        arc.run(Op(OpKind.GATHER, 4, "int8", root=0, count=1), Contribution.zeros())
    with Peers(tmp_path, "g", 4, (0,), 0) as peers, pytest.raises(ValueError, match="gather, scatter"):
        peers.run(Op(OpKind.BARRIER, 4))
