"""Quantities are exact: what is written is what is counted, or it is refused."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.scenario.quantities import RATE, SIZE, TIME, Quantity

QUANTITIES = pytest.mark.parametrize("quantity", [SIZE, RATE, TIME], ids=lambda quantity: quantity.noun)


@pytest.mark.parametrize(
    ("quantity", "text", "value"),
    [
        (SIZE, "80GiB", 80 * 1024**3),
        (SIZE, "80GB", 80 * 1000**3),
        (SIZE, "1.5 KiB", 1536),
        (SIZE, "0B", 0),
        (TIME, "1.5ms", 1_500_000),
        (TIME, "10min", 600 * 10**9),
        (TIME, "0.000000001s", 1),
        (TIME, "-3us", -3000),
        (RATE, "50GB/s", 50 * 10**9),
        (RATE, "0.5GiB/s", 2**29),
    ],
)
def test_value(quantity: Quantity, text: str, value: int) -> None:
    assert quantity.parse(text) == value


@pytest.mark.parametrize(
    ("quantity", "text", "what"),
    [
        (SIZE, "80", "expected a size such as 80GiB"),
        (SIZE, "80 gigs", "units: B, KB, MB, GB, TB, KiB, MiB, GiB, TiB"),
        (SIZE, "80gib", "got '80gib'"),
        (SIZE, "GiB", "got 'GiB'"),
        (SIZE, ".5GiB", "got '.5GiB'"),
        (SIZE, "1e3B", "got '1e3B'"),
        (SIZE, "\u0668GB", "expected a size"),
        (SIZE, "1.5B", "a whole number of bytes, got '1.5B', which is 1.5"),
        (SIZE, "9000000TiB", "at most 9223372036854775807 bytes"),
        (SIZE, "9" * 5000 + "B", "expected a size"),
        (TIME, "0.5ns", "a whole number of nanoseconds"),
        (TIME, "3m", "units: ns, us, ms, s, min, h"),
        (RATE, "50GB", "expected a rate such as 50GB/s"),
        (RATE, "400Gb/s", "expected a rate such as 50GB/s"),
    ],
)
def test_refusal(quantity: Quantity, text: str, what: str) -> None:
    with pytest.raises(ValueError, match=re.escape(what)):
        quantity.parse(text)


@QUANTITIES
@given(data=st.data(), count=st.integers(-(10**5), 10**5), space=st.sampled_from(["", " "]))
def test_whole_counts_are_exact(quantity: Quantity, data: st.DataObject, count: int, space: str) -> None:
    unit = data.draw(st.sampled_from(sorted(quantity.units)))
    assert quantity.parse(f"{count}{space}{unit}") == count * quantity.units[unit]


@QUANTITIES
@given(data=st.data(), whole=st.integers(0, 10**4), digits=st.text("0123456789", min_size=1, max_size=12))
def test_fractions_are_exact_or_refused(quantity: Quantity, data: st.DataObject, whole: int, digits: str) -> None:
    unit = data.draw(st.sampled_from(sorted(quantity.units)))
    exact = Fraction(f"{whole}.{digits}") * quantity.units[unit]
    if exact.denominator == 1:
        assert quantity.parse(f"{whole}.{digits}{unit}") == exact
    else:
        with pytest.raises(ValueError, match="whole number"):
            quantity.parse(f"{whole}.{digits}{unit}")


@QUANTITIES
@given(text=st.text(max_size=12))
def test_any_text_is_a_number_or_a_refusal(quantity: Quantity, text: str) -> None:
    try:
        outcome: int | str = quantity.parse(text)
    except ValueError as refusal:
        outcome = str(refusal)
    assert isinstance(outcome, int) or outcome.startswith("expected")
