"""What a peak was made of, for a model whose tensors can be counted by hand."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from prism.core.events import PeakBreakdown
from prism.result import RankResult, Result
from prism.scenario import Capture
from tests.running import capture, scenario

PROGRAMS = Path(__file__).with_name("programs")
WEIGHTS = 2 * 64 * 64 * 4
STATE = 2 * WEIGHTS + 2 * 512  # two moments, and for each weight a step count
SPIKE = 1024 * 1024 * 4
HIDDEN = BATCH = 256 * 64 * 4
LOSS = 512

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("prism.gpu._allocator") is None, reason="the allocator extension is not built"
)


def peak(when: str, out: Path, iterations: int | None = None) -> RankResult:
    """The one rank of the program, as its result.json has it."""
    given = scenario(
        PROGRAMS / "spikes.py", (when,), world=1, capture=Capture(iterations=iterations), stages=("capture",)
    )
    capture(given, out)
    return Result.load(out / "result.json").ranks[0]


def expected(gradients: int, hidden: int, optimizer: int = STATE) -> PeakBreakdown:
    """The parts of the peak; the batch and the loss outlive the iteration."""
    return PeakBreakdown(
        parameters=WEIGHTS, gradients=gradients, optimizer=optimizer, activations=SPIKE + hidden, other=BATCH + LOSS
    )


def total(parts: PeakBreakdown) -> int:
    """All parts together."""
    return parts.parameters + parts.gradients + parts.optimizer + parts.activations + parts.other


@pytest.mark.parametrize(
    ("when", "parts"),
    [
        ("forward", expected(gradients=0, hidden=HIDDEN)),
        ("late", expected(gradients=WEIGHTS, hidden=HIDDEN)),
        ("after", expected(gradients=WEIGHTS, hidden=0)),
    ],
)
def test_the_parts_are_those_at_the_peak(when: str, parts: PeakBreakdown, tmp_path: Path) -> None:
    rank = peak(when, tmp_path / "out")
    assert rank.peak_breakdown == parts
    assert rank.peak_bytes == total(parts)


def test_state_that_is_made_after_the_peak_is_no_part_of_it(tmp_path: Path) -> None:
    rank = peak("forward", tmp_path / "out", iterations=1)
    assert rank.peak_breakdown == expected(gradients=0, hidden=HIDDEN, optimizer=0)


def test_without_an_optimizer_there_is_no_breakdown(tmp_path: Path) -> None:
    rank = capture(scenario(PROGRAMS / "holds_by_rank.py", world=1), tmp_path / "out").result.ranks[0]
    assert rank.peak_breakdown is None
    assert rank.peak_bytes == 4096 + 512
