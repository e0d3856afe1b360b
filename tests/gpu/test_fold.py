"""Sums: in ring order, bit for bit, whether C++ or torch's operators do them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from prism.core.graph import ITEMSIZE, OpKind
from prism.gpu.group import fold as fold_module
from prism.gpu.group.fold import NATIVE_DTYPES, NATIVE_REDUCES
from tests.gpu.folding import RANKS, Store, rows, same


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_all_reduce_adds_each_chunk_round_the_ring(store: Store) -> None:
    given = rows(torch.float32, count=RANKS * 4)
    expected = []
    for owner in range(RANKS):
        piece = slice(owner * 4, owner * 4 + 4)
        total = given[(owner + 1) % RANKS][piece].clone()
        for step in range(2, RANKS + 1):
            total = total + given[(owner + step) % RANKS][piece]
        expected.append(total)
    assert torch.equal(store.fold(OpKind.ALL_REDUCE, given)[0], torch.cat(expected))


@pytest.mark.skipif(fold_module._fold is None, reason="the C++ fold is not built for this torch")
@pytest.mark.parametrize("reduce", sorted(NATIVE_REDUCES))
@pytest.mark.parametrize("name", sorted(NATIVE_DTYPES))
def test_both_ways_of_adding_agree(store: Store, monkeypatch: pytest.MonkeyPatch, name: str, reduce: str) -> None:
    given = rows(getattr(torch, name))
    if given[0].is_floating_point():
        given[2][7] = float("nan")
    if reduce == "avg" and name == "bool":
        pytest.skip("nobody averages truth values")
    native = store.fold(OpKind.ALL_REDUCE, given, reduce)
    monkeypatch.setattr(fold_module, "_fold", None)
    assert same(native[0], store.fold(OpKind.ALL_REDUCE, given, reduce)[0])


def test_reduce_ends_at_the_root(store: Store) -> None:
    given = rows(torch.float32)
    total = given[3] + given[4]
    for member in (0, 1, 2):
        total = total + given[member]
    assert torch.equal(store.fold(OpKind.REDUCE, given, root=2)[0], total)


def test_reduce_scatter_gives_each_shard_to_its_owner_last(store: Store) -> None:
    given = rows(torch.float32, count=RANKS * 2)
    splits = ((2,) * RANKS,) * RANKS
    result = store.fold(OpKind.REDUCE_SCATTER, given, splits=splits)[0]
    total = given[2][2:4] + given[3][2:4]
    for member in (4, 0, 1):
        total = total + given[member][2:4]
    assert torch.equal(result[2:4], total)


def test_integers_are_divided_after_the_sum(store: Store) -> None:
    given = [torch.tensor([1, 5, -7]) for _ in range(3)]
    given[0] = torch.tensor([2, 5, -7])
    assert store.fold(OpKind.ALL_REDUCE, given, "avg")[0].tolist() == [1, 5, -7]


def test_all_to_all_hands_each_member_its_blocks(store: Store) -> None:
    given = [torch.tensor([10, 11, 12]), torch.tensor([20, 21]), torch.tensor([], dtype=torch.int64)]
    splits = ((1, 2, 0), (0, 1, 1), (0, 0, 0))
    results = store.fold(OpKind.ALL_TO_ALL, given, splits=splits)
    assert [result.tolist() for result in results] == [[10], [11, 12, 20], [21]]


def test_every_type_of_the_graph_is_known_to_torch() -> None:
    assert all(hasattr(torch, name) for name in ITEMSIZE if name != "none")
    assert all(getattr(torch, name).itemsize == size for name, size in ITEMSIZE.items() if name != "none")
