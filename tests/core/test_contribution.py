"""Partial sums that stand for virtual ranks, held against what an arc of the ring sends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.core.contribution import Part, arcs, parts
from prism.core.ring import order


@st.composite
def rings(draw: st.DrawFn) -> tuple[int, tuple[int, ...]]:
    """A size, and some of the members."""
    size = draw(st.integers(1, 9))
    return size, tuple(sorted(draw(st.sets(st.integers(0, size - 1), min_size=1))))


def members(part: Part, owner: int, size: int) -> list[int]:
    """Whose inputs the part holds of the chunk of an owner, in the order of their sum."""
    turns = order(owner, size)
    return [turns[place] for place in part.places(owner, size) if turns[place] not in part.left_out]


def between(first: int, last: int, size: int) -> list[int]:
    """The members from one to another, both included, round the ring."""
    return [(first + step) % size for step in range((last - first) % size + 1)]


@given(rings())
def test_arcs_and_sandbox_ranks_are_all_members(ring: tuple[int, tuple[int, ...]]) -> None:
    size, sandbox = ring
    assert sum(length for _, _, length in arcs(sandbox, size)) == size - len(sandbox)
    for a, b, length in arcs(sandbox, size):
        assert (a + length + 1) % size == b
        assert not set(sandbox) & {(a + 1 + step) % size for step in range(length)}


@given(rings())
def test_exact_is_what_comes_to_a_sandbox_rank(ring: tuple[int, tuple[int, ...]]) -> None:
    """At step n of the first n - 1, that is the chunk n + 2 before its own, from all that it has passed."""
    size, sandbox = ring
    kept = {part.member: part for part in parts("exact", sandbox, size)}
    assert set(kept) == {b for b in sandbox if (b - 1) % size not in sandbox}
    for b, part in kept.items():
        for n in range(size - 1):
            assert members(part, (b - 2 - n) % size, size) == between(b - 1 - n, b - 1, size)
        assert members(part, (b - 1) % size, size) == []


@given(rings())
def test_prefolded_is_what_an_arc_adds(ring: tuple[int, tuple[int, ...]]) -> None:
    size, sandbox = ring
    kept = {(part.field, part.member): part for part in parts("prefolded", sandbox, size)}
    with_arc = [(a, b, length) for a, b, length in arcs(sandbox, size) if length]
    assert len(kept) == 2 * len(with_arc)
    for a, b, length in with_arc:
        heads, tails = dict[int, list[int]](), dict[int, list[int]]()
        for n in range(length):  # sent before anything of the sandbox rank on the left has come through
            heads[(b - 2 - n) % size] = between(b - 1 - n, b - 1, size)
        for k in range(size - 1):  # what came as the k-th goes on until its owner or the end of the arc
            owner = (a - 1 - k) % size
            tails[owner] = between(a + 1, min((owner - a) % size, length) + a, size)
        for owner in range(size):
            assert members(kept["before", b], owner, size) == heads.get(owner, [])
            assert members(kept["after", a], owner, size) == tails.get(owner, [])


@given(rings())
def test_left_is_the_sum_of_all_virtual_ranks(ring: tuple[int, tuple[int, ...]]) -> None:
    size, sandbox = ring
    for part in parts("left", sandbox, size):
        for owner in range(size):
            assert members(part, owner, size) == [m for m in order(owner, size) if m not in sandbox]


@given(rings())
def test_what_no_virtual_rank_is_in_needs_nothing(ring: tuple[int, tuple[int, ...]]) -> None:
    size, sandbox = ring
    assert [bool(parts(way, sandbox, size)) for way in ("exact", "prefolded", "left")] == [len(sandbox) < size] * 3
    assert [bool(parts(way, (), size)) for way in ("exact", "prefolded", "left")] == [False] * 3


@pytest.mark.parametrize("contribution", ["replicas", "zeros"])
def test_replicas_and_zeros_need_nothing(contribution: str) -> None:
    assert parts(contribution, (1,), 4) == ()


def test_one_sandbox_rank_of_three() -> None:
    before, after = parts("prefolded", (1,), 3)
    assert [members(before, owner, 3) for owner in range(3)] == [[], [2, 0], [0]]
    assert [members(after, owner, 3) for owner in range(3)] == [[2, 0], [], [2]]
