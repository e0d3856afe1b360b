"""What torch.distributed can do works under PRISM as on gloo, and docs/conformance.md says so truly."""

from __future__ import annotations

import pytest

from tests.conformance_table import COMMAND, FAST, SLOW, committed, features, rows

NOWHERE = {
    "split_group",  # torch wants an accelerator that is bound to the group
    "DDP, bf16_compress_hook",  # torch wants a CUDA build
}
"""What torch itself refuses to do without a GPU."""


def check(program: str) -> None:
    """The program's rows of the table are what a run gives."""
    expected = [row for row in committed() if row[0] in features(program)]
    found = rows(program)
    assert [row.cells() for row in found] == expected, f"docs/conformance.md is stale, run {COMMAND}; found {found}"


@pytest.mark.parametrize("program", FAST)
def test_the_table_is_true(program: str) -> None:
    check(program)


@pytest.mark.slow
@pytest.mark.parametrize("program", SLOW)
def test_the_table_is_true_of_what_takes_long(program: str) -> None:
    check(program)


def test_the_table_has_every_feature_once() -> None:
    every = [feature for program in (*FAST, *SLOW) for feature in features(program)]
    assert [row[0] for row in committed()] == every, f"docs/conformance.md is stale, run {COMMAND}"


def test_prism_does_all_that_gloo_does_and_fails_only_where_torch_refuses() -> None:
    failing = {feature for feature, gloo, native, _ in committed() if native == "no" or (gloo, native) == ("yes", "no")}
    assert failing == NOWHERE
