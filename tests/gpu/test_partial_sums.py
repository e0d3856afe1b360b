"""Partial sums, kept beside the whole one: bit for bit what adding their members' inputs one after the other gives."""

from __future__ import annotations

import functools
from itertools import combinations, product
from pathlib import Path

import pytest
import torch

from prism.core.contribution import Part, parts
from prism.core.graph import ITEMSIZE, OpKind
from prism.core.ring import chunks, order
from prism.gpu.group import fold as fold_module
from prism.gpu.group.fold import NATIVE_DTYPES
from tests.gpu.folding import Store, rows, same

COUNT = 203  # elements: several of the last chunks of a ring, none of them full
ADD = {
    "sum": torch.add, "avg": torch.add, "product": torch.mul, "min": torch.minimum, "max": torch.maximum,
    "band": torch.bitwise_and, "bor": torch.bitwise_or, "bxor": torch.bitwise_xor,
}  # fmt: skip
KINDS: dict[OpKind, dict[str, object]] = {OpKind.ALL_REDUCE: {}, OpKind.REDUCE: {"root": 1}, OpKind.REDUCE_SCATTER: {}}
WAYS = ("exact", "prefolded", "left")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


@pytest.fixture(params=["native", "torch"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Who adds: C++, or torch's operators."""
    if request.param == "native" and fold_module._fold is None:
        pytest.skip("the C++ fold is not built for this torch")
    if request.param == "torch":
        monkeypatch.setattr(fold_module, "_fold", None)
    return str(request.param)


def shards(count: int, size: int) -> tuple[tuple[int, ...], ...]:
    """Uneven shards of a reduce_scatter, one of them empty where there are three or more members."""
    row = [count // size] * size
    row[-1] += count - sum(row)
    if size > 2:
        row[0], row[1] = row[0] + row[1], 0
    return (tuple(row),) * size


def owners(kind: OpKind, count: int, dtype: str, size: int) -> list[int]:
    """The owner of each element."""
    if kind is OpKind.REDUCE:
        return [1] * count
    if kind is OpKind.ALL_REDUCE:
        return [owner for start, stop, owner in chunks(count, ITEMSIZE[dtype], size) for _ in range(start, stop)]
    return [owner for owner, length in enumerate(shards(count, size)[0]) for _ in range(length)]


def naive(part: Part, given: list[torch.Tensor], reduce: str, owner_of: list[int]) -> torch.Tensor:
    """The part's sum, owner by owner over the whole tensor, of which the owner's elements count."""
    size, result = len(given), torch.zeros_like(given[0])
    scaled = [row * (1 / size) for row in given] if reduce == "avg" and given[0].is_floating_point() else given
    for owner in range(size):
        turns = order(owner, size)
        own = [scaled[turns[p]] for p in part.places(owner, size) if turns[p] not in part.left_out]
        if own:
            mine = torch.tensor(owner_of) == owner
            result[mine] = functools.reduce(ADD[reduce], own)[mine]
    return result


def fold_both_ways(
    store: Store, kind: OpKind, given: list[torch.Tensor], reduce: str, kept: tuple[Part, ...]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The partial sums as they are kept, and as they should be."""
    size, count, dtype = len(given), given[0].numel(), str(given[0].dtype).removeprefix("torch.")
    fields = {**KINDS[kind], "parts": kept}
    if kind is OpKind.REDUCE_SCATTER:
        fields["splits"] = shards(count, size)
    _, *sums = store.fold(kind, [row.clone() for row in given], reduce, **fields)
    return sums, [naive(part, given, reduce, owners(kind, count, dtype, size)) for part in kept]


@pytest.mark.parametrize("kind", list(KINDS), ids=lambda kind: kind.name.lower())
@pytest.mark.parametrize("size", range(2, 9))
def test_every_sandbox_of_up_to_three_ranks(store: Store, engine: str, size: int, kind: OpKind) -> None:
    given = rows(torch.float32, COUNT, size)
    for number in range(1, min(size, 4)):
        for sandbox in combinations(range(size), number):
            kept = tuple(part for way in WAYS for part in parts(way, sandbox, size))
            sums, expected = fold_both_ways(store, kind, given, "sum", kept)
            assert all(map(torch.equal, sums, expected)), sandbox


def has(dtype: str, reduce: str) -> bool:
    """Whether torch has such a reduction."""
    if dtype == "bool":
        return reduce != "avg"
    return "float" not in dtype or reduce not in ("band", "bor", "bxor")


@pytest.mark.parametrize(("dtype", "reduce"), [case for case in product(sorted(NATIVE_DTYPES), ADD) if has(*case)])
def test_every_type_and_reduction(store: Store, engine: str, dtype: str, reduce: str) -> None:
    given = rows(getattr(torch, dtype), COUNT)
    if given[0].is_floating_point():
        given[2][7] = float("nan")
    kept = tuple(part for way in WAYS for part in parts(way, (1, 2, 4), len(given)))
    sums, expected = fold_both_ways(store, OpKind.ALL_REDUCE, given, reduce, kept)
    assert all(map(same, sums, expected))


def test_more_than_a_block_of_many_loops(store: Store, engine: str) -> None:
    given = rows(torch.float64, 3 * (1 << 19) + 1001, 2)  # two full chunks of 2 MiB each, and what is left
    kept = tuple(part for way in WAYS for part in parts(way, (0,), 2))
    sums, expected = fold_both_ways(store, OpKind.ALL_REDUCE, given, "sum", kept)
    assert all(map(torch.equal, sums, expected))


@pytest.mark.parametrize("kind", list(KINDS), ids=lambda kind: kind.name.lower())
@pytest.mark.parametrize("member", range(5))
def test_what_comes_before_a_rank_goes_on_to_the_whole_sum(
    store: Store, engine: str, kind: OpKind, member: int
) -> None:
    """The running total, its own input, and those behind it, one after the other: every bit of the result."""
    given = rows(torch.bfloat16, COUNT)
    fields = {**KINDS[kind], "parts": parts("exact", (member,), 5)}
    if kind is OpKind.REDUCE_SCATTER:
        fields["splits"] = shards(COUNT, 5)
    result, before = store.fold(kind, given, "sum", **fields)
    for at, owner in enumerate(owners(kind, COUNT, "bfloat16", 5)):
        turns = order(owner, 5)
        place = turns.index(member)
        total = before[at] + given[member][at] if place else given[member][at]
        for behind in turns[place + 1 :]:
            total = total + given[behind][at]
        assert torch.equal(total, result[at])


def test_averages_of_integers_are_not_divided_before_they_are_whole(store: Store, engine: str) -> None:
    given = [torch.tensor([3, -7]), torch.tensor([4, 5]), torch.tensor([7, 7])]
    result, rest = store.fold(OpKind.REDUCE, given, "avg", root=0, parts=parts("left", (0,), 3))
    assert rest.tolist() == [11, 12]
    assert result.tolist() == [4, 1]
