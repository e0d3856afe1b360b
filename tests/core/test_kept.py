"""Which results a record keeps."""

from __future__ import annotations

import pytest

from prism.core.contribution import Part
from prism.core.graph import DTYPES
from prism.core.stage.kept import SMALL_BYTES, Kept

LARGE = 10**9


@pytest.mark.parametrize("dtype", DTYPES)
def test_integers_and_truth_values_steer_programs_and_are_kept_whatever_their_size(dtype: str) -> None:
    integer = dtype == "none" or dtype.startswith(("int", "uint", "bool"))
    assert [Kept(payloads=mode).keeps(dtype, LARGE) for mode in ("all", "control", "none")] == [True, integer, integer]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64", "float8_e4m3fn"])
def test_small_numbers_are_kept_as_they_may_steer(dtype: str) -> None:
    sizes = (0, 4, SMALL_BYTES, SMALL_BYTES + 1)
    assert [Kept(payloads="control").keeps(dtype, size) for size in sizes] == [True, True, True, False]
    assert [Kept(payloads="none").keeps(dtype, size) for size in sizes] == [True, False, False, False]


def test_partial_sums_are_about_group_ranks() -> None:
    kept = Kept(sandbox=(2, 5), contribution="exact")
    assert kept.parts((7, 5, 3, 2)) == (Part("before", 3, 3), Part("before", 1, 3))
    assert kept.parts((0, 1)) == ()


@pytest.mark.parametrize(
    ("has", "needs", "enough"),
    [
        (Kept(), Kept(), True),
        (Kept(), Kept(payloads="control"), False),
        (Kept(), Kept(sandbox=(0,), contribution="left"), False),
        (Kept(), Kept(sandbox=(0,), contribution="zeros"), True),
        (Kept(sandbox=(0,), contribution="left"), Kept(), True),
        (Kept(sandbox=(0,), contribution="left"), Kept(sandbox=(0,), contribution="left"), True),
        (Kept(sandbox=(0,), contribution="left"), Kept(sandbox=(1,), contribution="left"), False),
        (Kept(sandbox=(0,), contribution="left"), Kept(sandbox=(0,), contribution="exact"), False),
        (Kept(sandbox=(0,), contribution="left"), Kept(sandbox=(0,), contribution="replicas"), True),
    ],
)
def test_a_record_serves_what_needs_no_more_than_it_has(has: Kept, needs: Kept, enough: bool) -> None:
    assert has.covers(needs) is enough
