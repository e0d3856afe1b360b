"""The log of measured slices: what was written before a crash counts, what was being written does not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from prism.core.events import Clocked, ClockState
from prism.core.measuring.segments import Segments
from prism.core.measuring.slice_log import VERSION, Head, Slice, decode, encode

STATES = st.builds(ClockState, st.integers(0, 2000), st.integers(0, 700), st.integers(0, 100))
CLOCKED = st.builds(Clocked, rank=st.integers(0, 9), before=STATES, after=STATES, throttled=st.just(("power cap",)),
    posting=st.just({"wait": 4_000}), idle=st.integers(0, 9), steps=st.just(9),
)  # fmt: skip
SEGMENTS = st.builds(
    Segments,
    st.lists(st.integers(0, 2**62), max_size=4),
    st.lists(st.tuples(st.integers(0, 9), st.integers(-1, 9)), max_size=2),
)
SLICES = st.lists(
    st.builds(
        Slice,
        st.sampled_from(["fast", "paced"]),
        st.lists(st.integers(0, 9), min_size=1, max_size=3).map(tuple),
        st.integers(0, 5),
        st.lists(SEGMENTS, max_size=3),
        st.lists(CLOCKED, max_size=2),
    ),
    max_size=5,
)
HEAD = encode(Head(VERSION, "of these"))


@given(SLICES, st.data())
def test_a_log_that_is_cut_off_has_the_entries_before_the_cut(slices: list[Slice], data: st.DataObject) -> None:
    entries = [encode(one) for one in slices]
    log = HEAD + b"".join(entries)
    cut = data.draw(st.integers(len(HEAD), len(log)))
    found, whole = decode(log[:cut], "of these")
    ends = [len(HEAD) + sum(map(len, entries[:count])) for count in range(len(entries) + 1)]
    assert whole == max(end for end in ends if end <= cut)
    assert found == slices[: ends.index(whole)]


@given(SLICES, st.data())
def test_an_entry_that_was_changed_ends_the_log(slices: list[Slice], data: st.DataObject) -> None:
    log = bytearray(HEAD + b"".join(map(encode, slices)))
    log[data.draw(st.integers(0, len(log) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    found, whole = decode(bytes(log), "of these")
    assert found == slices[: len(found)]
    assert whole < len(log)


def test_a_log_of_other_measurements_has_none() -> None:
    log = HEAD + encode(Slice("fast", (0,), 0, [Segments([1])]))
    assert decode(log, "of others") == ([], 0)
    assert decode(encode(Head(VERSION + 1, "of these")), "of these") == ([], 0)
    assert decode(b"", "of these") == ([], 0)
