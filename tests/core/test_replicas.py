"""What more replicas make of the sizes of operations."""

from __future__ import annotations

import pytest

from prism.core.graph import OpKind
from prism.core.what_if.replicas import with_replicas
from tests.core.jobs import Job

MESH = {"dp": 2, "tp": 2}
STAY = [kind for kind in OpKind if kind not in (OpKind.ALL_GATHER, OpKind.GATHER, OpKind.SEND_RECV)]


def nbytes(kind: OpKind, nbytes: int, ranks: tuple[int, ...], to: int) -> list[int]:
    """The sizes of all that comes of one op of a group."""
    job = Job(4)
    group = job.group(ranks)
    for rank in ranks:
        job.post(rank, kind, nbytes, group, splits=[4] * len(ranks) ** 2 if kind is OpKind.ALL_TO_ALL else ())
    found: list[int] = with_replicas(job.graph(), MESH, "dp", to).ops["nbytes"].tolist()
    return found


@pytest.mark.parametrize("kind", STAY)
def test_what_each_member_has_of_its_own_stays(kind: OpKind) -> None:
    assert nbytes(kind, 400, (0, 2), to=8) == [400]


@pytest.mark.parametrize("kind", [OpKind.ALL_GATHER, OpKind.GATHER])
def test_shards_get_smaller_so_that_the_whole_stays(kind: OpKind) -> None:
    assert nbytes(kind, 400, (0, 2), to=8) == [100]
    assert nbytes(kind, 400, (0, 1, 2, 3), to=8) == [100]


def test_shards_are_whole_elements() -> None:
    assert nbytes(OpKind.ALL_GATHER, 4, (0, 2), to=8) == [4]
    assert nbytes(OpKind.ALL_GATHER, 40, (0, 2), to=6) == [16]
    assert nbytes(OpKind.ALL_GATHER, 0, (0, 2), to=6) == [0]


def test_shards_of_other_dimensions_stay() -> None:
    assert nbytes(OpKind.ALL_GATHER, 400, (0, 1), to=8) == [400] * 4
