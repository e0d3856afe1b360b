"""Inputs that ranks bring which stand for many: the same payload again and again in one sum, and parts of payloads."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from prism.core.calls import Ref
from prism.core.contribution import Part
from prism.core.graph import OpKind
from prism.core.instructions import Fold
from prism.gpu.group.fold import fold
from prism.gpu.group.tensors import save
from tests.gpu.folding import Store, rows, same

PARTS = (Part("rest", -1, 60, (1, 2)), Part("before", 3, 20))


@pytest.mark.parametrize("different", [1, 3, 20])
@pytest.mark.parametrize("reduce", ["sum", "avg", "max"])
def test_a_payload_that_comes_again_counts_each_time(tmp_path: Path, different: int, reduce: str) -> None:
    """As many payloads with equal bytes give the same sums, also in more than one block."""
    store = Store(tmp_path)
    given = rows(torch.float32, count=3 * 65536 + 5, size=different)
    members = [given[member % different] for member in range(3 * different)]
    apart = store.fold(OpKind.ALL_REDUCE, members, reduce, parts=PARTS)
    inputs = tuple(save([row], store.arena) for row in given) * 3
    due = Fold(
        rank=0, op=0, kind=OpKind.ALL_REDUCE, dtype="float32", reduce=reduce, root=-1, inputs=inputs, parts=PARTS
    )
    results, parts = fold(due, store.library, lambda nbytes: store.arena)
    again = [store._tensor(ref, torch.float32) for ref in (*results, *parts)]
    assert all(same(a, b) for a, b in zip(again, apart, strict=True))


def test_results_are_put_together_from_parts(tmp_path: Path) -> None:
    store = Store(tmp_path)
    whole = save([torch.arange(6, dtype=torch.int32)], store.arena)
    routes: tuple[tuple[Ref, ...], ...] = ((whole.part(0, 4), whole.part(16, 8)), (whole.part(4, 0), whole.part(4, 8)))
    due = Fold(rank=0, op=0, kind=OpKind.ALL_TO_ALL, dtype="int32", reduce="none", root=-1, inputs=(), routes=routes)
    results, _ = fold(due, store.library, lambda nbytes: store.arena)
    assert [store._tensor(ref, torch.int32).tolist() for ref in results] == [[0, 4, 5], [1, 2]]
