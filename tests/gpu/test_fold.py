"""Sums: in ring order, bit for bit, whether C++ or torch's operators do them."""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from prism.core.contribution import Part
from prism.core.graph import ITEMSIZE, OpKind
from prism.core.instructions import Fold
from prism.gpu.group import fold as fold_module
from prism.gpu.group.fold import NATIVE_DTYPES, NATIVE_REDUCES, fold
from prism.gpu.group.tensors import save
from tests.gpu.folding import COUNT, RANKS, Store, rows, same

native = pytest.mark.skipif(fold_module._fold is None, reason="the C++ fold is not built for this torch")
CASES = [case for case in product(sorted(NATIVE_DTYPES), sorted(NATIVE_REDUCES)) if case != ("bool", "avg")]
BLOCKS = 3 * 131072 + 77  # elements: several blocks of the C++ fold, of every type, and no multiple of a vector
INPUTS = {
    "different": (0, 1, 2, 3, 4),
    "equal": (0,) * 100,
    "in-turns": (0, 1, 2) * 5,
    "in-runs": (0,) * 70 + (1,) + (0,) * 33 + (2,) * 5,
}  # which of five tensors each member brings
SPECIAL = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0)


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


@native
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


def wild(dtype: torch.dtype, count: int) -> list[torch.Tensor]:
    """Five tensors in which all special values of the type meet each other."""
    tensors = rows(dtype, count)
    if not dtype.is_floating_point:
        return tensors
    limits = torch.finfo(dtype)
    values = torch.tensor([*SPECIAL, limits.max, limits.min, limits.tiny, limits.tiny / 8], dtype=torch.float64)
    for number, tensor in enumerate(tensors):
        at = torch.arange(number, count, 3)  # two others bring plain values, at most two special ones
        tensor[at] = values[(at // 3 + at * number) % len(values)].to(dtype)
    return tensors


def both_ways(
    monkeypatch: pytest.MonkeyPatch, store: Store, due: Fold, threads: int
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """What C++ gives, in so many threads, and what torch does."""
    results = []
    for way in (SimpleNamespace(fold=partial(fold_module._fold.fold, threads=threads)), None):
        with monkeypatch.context() as patched:
            patched.setattr(fold_module, "_fold", way)
            whole, parts = fold(due, store.library, lambda nbytes: store.arena)
        results.append([store._tensor(ref, getattr(torch, due.dtype)) for ref in (*whole, *parts)])
    return results[0], results[1]


@native
@pytest.mark.parametrize("members", INPUTS.values(), ids=INPUTS)
@pytest.mark.parametrize(("name", "reduce"), CASES)
def test_special_values_and_equal_inputs(
    store: Store, monkeypatch: pytest.MonkeyPatch, name: str, reduce: str, members: tuple[int, ...]
) -> None:
    refs = [save([tensor], store.arena) for tensor in wild(getattr(torch, name), COUNT)]
    size = len(members)
    kept = (
        Part("rest", -1, size, (1, size - 2)),
        Part("before", size // 2, size),
        Part("before", 1, size, (0,)),
        Part("after", 2, 3),
    )
    for kind in (OpKind.ALL_REDUCE, OpKind.REDUCE):
        if kind is OpKind.ALL_REDUCE and size > 20:
            continue  # torch would take seconds for so many chunks
        inputs = tuple(refs[member] for member in members)
        due = Fold(rank=0, op=0, kind=kind, dtype=name, reduce=reduce, root=2, inputs=inputs, parts=kept)
        assert all(map(same, *both_ways(monkeypatch, store, due, threads=1)))


@native
@pytest.mark.parametrize("members", INPUTS.values(), ids=INPUTS)
@pytest.mark.parametrize("name", ["bfloat16", "float64"])
def test_several_threads(store: Store, monkeypatch: pytest.MonkeyPatch, name: str, members: tuple[int, ...]) -> None:
    refs = [save([tensor], store.arena) for tensor in wild(getattr(torch, name), BLOCKS)]
    kept = (Part("rest", -1, len(members), (1, 3)), Part("before", 3, len(members)))
    inputs = tuple(refs[member] for member in members)
    due = Fold(rank=0, op=0, kind=OpKind.ALL_REDUCE, dtype=name, reduce="sum", root=-1, inputs=inputs, parts=kept)
    assert all(map(same, *both_ways(monkeypatch, store, due, threads=3)))


@native
@pytest.mark.parametrize("name", ["bfloat16", "float16"])
@pytest.mark.parametrize("reduce", sorted(NATIVE_REDUCES))
def test_every_small_float(store: Store, monkeypatch: pytest.MonkeyPatch, name: str, reduce: str) -> None:
    """All bits there are, added to others, once and many times; what is not a number is the one that c10 gives."""
    torch.manual_seed(5)
    every = torch.arange(-32768, 32768, dtype=torch.int32).to(torch.int16)
    dtype = getattr(torch, name)
    refs = [save([every[torch.randperm(65536)].view(dtype)], store.arena) for _ in range(3)]
    for members in ((0, 1), (0, 1, 2), (0, 1, *[2] * 50)):
        inputs = tuple(refs[member] for member in members)
        due = Fold(rank=0, op=0, kind=OpKind.REDUCE, dtype=name, reduce=reduce, root=len(members) - 1, inputs=inputs)
        (ours,), (torchs,) = both_ways(monkeypatch, store, due, threads=1)
        assert same(ours, torchs)
        if reduce not in ("min", "max"):
            bits = ours.view(torch.int16)[ours.isnan()] & (-1 if name == "bfloat16" else 0x7FFF)
            assert set(bits.tolist()) == {0x7FC0 if name == "bfloat16" else 0x7E00}


@native
@pytest.mark.parametrize("times", [1, 2, 31, 32, 33, 34, 63, 64, 65, 999])
@pytest.mark.parametrize("value", [1.0, -1.0, 0.0, 1.5, float("nan")])
@pytest.mark.parametrize("reduce", ["sum", "product"])
def test_what_no_longer_changes(
    store: Store, monkeypatch: pytest.MonkeyPatch, reduce: str, value: float, times: int
) -> None:
    """Sums that are at their end after some additions, and products that come to the same number every other time."""
    refs = [save([torch.tensor([first, value], dtype=torch.bfloat16)], store.arena) for first in (3.0, value)]
    inputs = (refs[0], *[refs[1]] * times)
    due = Fold(rank=0, op=0, kind=OpKind.REDUCE, dtype="bfloat16", reduce=reduce, root=times, inputs=inputs)
    (ours,), (torchs,) = both_ways(monkeypatch, store, due, threads=1)
    assert same(ours, torchs)


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
