"""A capacity of the device: what fits runs, and the first allocation that does not ends the run as out of memory."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from prism.core.diagnosis import Diagnosis
from prism.errors import RunError
from prism.scenario import Devices
from tests.running import Run, capture, scenario

PROGRAM = Path(__file__).with_name("programs") / "holds_by_rank.py"
NEEDED = [4096 + 512 * (rank + 1) for rank in range(3)]

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("prism.gpu._allocator") is None, reason="the allocator extension is not built"
)


def run(capacity: int, out: Path) -> Run:
    """Three ranks, one after the other, on devices of so many bytes."""
    return capture(scenario(PROGRAM, world=3, devices=Devices(kind="cpu", slots=1, memory=capacity)), out)


def diagnosis(capacity: int, out: Path) -> Diagnosis:
    """Of a run that fails."""
    found = run(capacity, out).result.diagnosis
    assert found is not None
    return found


def test_what_fits_exactly_runs(tmp_path: Path) -> None:
    result = run(NEEDED[2], tmp_path / "out").result
    assert (result.status, result.diagnosis) == ("ok", None)
    assert [rank.peak_bytes for rank in result.ranks] == NEEDED


def test_one_block_less_fails_the_one_rank_that_needs_it(tmp_path: Path) -> None:
    found = diagnosis(NEEDED[2] - 512, tmp_path / "out")
    assert found.kind == "oom"
    assert [rank.rank for rank in found.ranks if rank.traceback] == [2]
    assert found.summary.startswith(
        "rank 2 raised torch.OutOfMemoryError: out of memory. Tried to allocate 1.00 KiB. The device has a total "
        "capacity of 5.00 KiB of which 1.00 KiB is free and 4.00 KiB is in use. at holds_by_rank.py:10"
    )


def test_all_ranks_that_need_more_fail_at_the_same_line(tmp_path: Path) -> None:
    found = diagnosis(4096 + 511, tmp_path / "out")
    failed = [rank for rank in found.ranks if rank.traceback]
    assert sorted(rank.rank for rank in failed) == [0, 1, 2]
    assert {rank.callsite for rank in failed} == {"holds_by_rank.py:10"}


def test_the_first_block_can_be_too_large(tmp_path: Path) -> None:
    found = diagnosis(4095, tmp_path / "out")
    assert {rank.callsite for rank in found.ranks if rank.traceback} == {"holds_by_rank.py:9"}


def test_without_the_extension_a_capacity_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prism.gpu._allocator", None)
    with pytest.raises(RunError, match=r"devices\.memory: a capacity needs the extension"):
        run(NEEDED[2], tmp_path / "out")
