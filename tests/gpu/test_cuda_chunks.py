"""Dealing the bytes of tensors to buffers: each byte once, in order, no buffer overfull."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from prism.gpu.cuda.chunks import Piece, Span, dealt, scattered, whole

SIZES = st.lists(st.integers(0, 40), max_size=6)


def test_tensors_lie_back_to_back_as_far_as_the_bytes_reach() -> None:
    assert list(whole([4, 0, 8])) == [Span(0, 0, 4), Span(2, 0, 8)]
    assert list(whole([4, 8], 6)) == [Span(0, 0, 4), Span(1, 0, 2)]


def test_blocks_begin_where_their_room_begins() -> None:
    assert list(scattered([6, 6], [2, 3], [4, 8])) == [Span(0, 0, 2), Span(0, 4, 2), Span(1, 0, 1)]


def test_a_buffer_is_filled_before_the_next_is_begun() -> None:
    assert list(dealt(whole([5, 6]), 4)) == [
        [Piece(0, 0, 4, 0)],
        [Piece(0, 4, 1, 0), Piece(1, 0, 3, 1)],
        [Piece(1, 3, 3, 0)],
    ]


@given(SIZES, st.integers(1, 16))
def test_every_byte_is_dealt_once_and_in_order(sizes: list[int], capacity: int) -> None:
    buffers = list(dealt(whole(sizes), capacity))
    seen = [
        (piece.tensor, piece.start + byte) for pieces in buffers for piece in pieces for byte in range(piece.nbytes)
    ]
    assert seen == [(tensor, byte) for tensor, size in enumerate(sizes) for byte in range(size)]
    for pieces in buffers:
        ends = [piece.offset + piece.nbytes for piece in pieces]
        assert [piece.offset for piece in pieces] == [0, *ends[:-1]]
        assert ends[-1] == capacity or pieces is buffers[-1]
