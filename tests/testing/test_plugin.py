"""The plugin as its users have it: in a pytest of their own, under xdist, with a failure that explains itself."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

TESTS = """
import pytest
import torch
import torch.distributed as dist


def program():
    total = torch.ones(1)
    if dist.get_rank() == 1:
        dist.barrier()
    dist.all_reduce(total)
    return total.item()


@pytest.mark.prism(size=3)
def test_fails(prism_world):
    prism_world(program)


@pytest.mark.prism(size=3)
def test_passes(prism_world):
    assert list(prism_world(dist.get_world_size)) == [3, 3, 3]
"""


def test_it_works_under_xdist_and_fails_with_the_diagnosis(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess("-n", "2", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*prism.testing.RanksFailed: mismatch: *rank 1*barrier*"])
    result.stdout.fnmatch_lines(["*rank 1: * in barrier on default, number 1, at *.py:9"])
    result.stdout.fnmatch_lines(["FAILED *::test_fails - prism.testing.RanksFailed: mismatch*"])
    assert "Scenario(" not in result.stdout.str(), "nobody wants to see how it is done"


def test_an_option_that_there_is_not_is_refused_where_it_stands(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS.replace("size=3", "size=3, slot=4"))
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*marker prism: unknown option slot, choose from size, backend, slots, *"])
