"""The order of sums: chunks that cover everything once, cut as NCCL cuts them, each summed round the ring."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.core.ring import ALIGN_BYTES, CHUNK_BYTES, chunks, order

FULL = CHUNK_BYTES // 4  # float32 elements of a full chunk


@given(count=st.integers(0, 20 * FULL), itemsize=st.sampled_from([1, 2, 4, 8, 16]), size=st.integers(1, 9))
def test_chunks_cover_all_elements_once(count: int, itemsize: int, size: int) -> None:
    at = 0
    for start, stop, owner in chunks(count, itemsize, size):
        assert start == at < stop
        assert 0 <= owner < size
        at = stop
    assert at == count


@given(count=st.integers(1, 20 * FULL), itemsize=st.sampled_from([1, 2, 4, 8, 16]), size=st.integers(1, 9))
def test_all_chunks_but_the_last_begin_on_aligned_bytes(count: int, itemsize: int, size: int) -> None:
    for start, stop, _ in chunks(count, itemsize, size):
        assert start * itemsize % ALIGN_BYTES == 0
        assert (stop - start) * itemsize <= CHUNK_BYTES


@pytest.mark.parametrize(
    ("count", "size", "expected"),
    [
        (0, 2, []),
        (1, 4, [(0, 1, 0)]),
        (4, 2, [(0, 4, 0)]),  # two elements each would be 8 bytes: rounded up to 16
        (10, 3, [(0, 4, 0), (4, 8, 1), (8, 10, 2)]),
        (2 * FULL, 2, [(0, FULL, 0), (FULL, 2 * FULL, 1)]),
        # One element short of a full loop: the last loop's rule, and it gives a full chunk again.
        (2 * FULL - 1, 2, [(0, FULL, 0), (FULL, 2 * FULL - 1, 1)]),
        # A full loop, then what is left over two ranks.
        (
            2 * FULL + 9,
            2,
            [(0, FULL, 0), (FULL, 2 * FULL, 1), (2 * FULL, 2 * FULL + 8, 0), (2 * FULL + 8, 2 * FULL + 9, 1)],
        ),
    ],
)
def test_chunks_of_float32(count: int, size: int, expected: list[tuple[int, int, int]]) -> None:
    assert list(chunks(count, 4, size)) == expected


def test_a_chunk_is_counted_in_bytes() -> None:
    assert next(chunks(10 * CHUNK_BYTES, 1, 2)) == (0, CHUNK_BYTES, 0)
    assert next(chunks(10 * CHUNK_BYTES, 16, 2)) == (0, CHUNK_BYTES // 16, 0)


def test_a_sum_begins_behind_its_owner_and_ends_with_it() -> None:
    assert [order(owner, 4) for owner in range(4)] == [[1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2], [0, 1, 2, 3]]
    assert order(0, 1) == [0]
