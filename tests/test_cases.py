"""Hard cases: small programs with a known outcome, each under the verdict that its first lines state.

What a diagnosis must show beside its kind is the line that posts (or raises), marked `# site A` in the program.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch.torch_version import TorchVersion as Version

from prism.core.diagnosis import Diagnosis
from prism.scenario import Program
from tests.running import Run, capture, scenario

CASES = Path(__file__).parent / "cases"

SITES = {
    "01_asymmetric_batch asymmetric": "AC",
    "03_variable_length_shapes one_by_one": "A",
    "05_both_send_first small": "A",
    "05_both_send_first medium": "A",
    "05_both_send_first large": "A",
    "06_tags blocking gloo": "AB",
    "07_work_objects wait_last": "AB",
    "08_group_rank_vs_global_rank uncaught": "AB",
    "09_receive_larger_than_send p2p_2": "AB",
    "09_receive_larger_than_send p2p_3": "AB",
    "09_receive_larger_than_send all_to_all": "C",
    "09_receive_larger_than_send smaller": "AB",
    "15_all_to_all_zero_splits off_by_one": "A",
    "16_mismatched_reduction aux_losses": "AB",
    "16_mismatched_reduction large": "B",
    "16_mismatched_reduction dtype": "B",
    "17_coalescing_manager mixed": "A",
    "18_object_collectives extra_key": "AB",
    "21_uneven_batches_join plain": "AB",
    "22_gather_gated_on_local_state same_group": "AB",
    "22_gather_gated_on_local_state sub_group": "AB",
    "22_gather_gated_on_local_state rank0_ddp": "CD",
    "24_different_microbatch_counts local": "AC",
    "24_different_microbatch_counts same_group": "AC",
    "26_zero_tokens_on_an_expert_rank early_return": "BC",
    "27_nan_skip_step local_skip": "AB",
    "31_exit_with_work_pending raise": "AB",
    "31_exit_with_work_pending sys_exit": "A",
    "31_exit_with_work_pending os_exit": "A",
    "31_exit_with_work_pending finally_destroy": "AB",
    "33_cross_group_order sync": "AB",
    "34_straggler freeze": "AB",
}
"""The sites that each diagnosis must show."""

WARNINGS = {
    "02_many_p2p_in_one_batch many": "large_batch",
    "06_tags swapped": "tags_ignored",
    "06_tags blocking": "tags_ignored",
    "07_work_objects wait_twice gloo": "double_wait",
    "09_receive_larger_than_send p2p_2 gloo": "size_mismatch",
    "09_receive_larger_than_send p2p_3 gloo": "size_mismatch",
    "09_receive_larger_than_send all_to_all gloo": "size_mismatch",
    "15_all_to_all_zero_splits off_by_one gloo": "size_mismatch",
    "31_exit_with_work_pending destroy_pending": "pending_at_destroy",
    "31_exit_with_work_pending reinit_same_store": "store_reuse",
    "33_cross_group_order no_sync": "unsafe_order",
}
"""The warning that each case must bring."""

DEVIATIONS = {
    # A warning serves better than to hang as real gloo does, and the case's own text says so.
    "07_work_objects wait_twice gloo": "WARN",
    # A rank that is in no operation at all: it is told as a hang, with the ranks that wait for it.
    "34_straggler freeze": "HANG",
}

SINCE = {
    "17_coalescing_manager mixed": "2.12",
}
"""The torch release from which on torch itself behaves as the case states; seen with 2.11 and 2.13."""

UNDECIDABLE = {
    "03_variable_length_shapes ring2_crossed": "two equal messages of one pair: which was meant first, no call says",
}


@dataclass(frozen=True)
class Variant:
    """One run of a case: its argument, whose rules hold, and the verdict."""

    file: Path
    name: str
    world: int
    backend: str
    verdict: str
    deviates: bool  # run under the other backend than the case's own

    @property
    def title(self) -> str:
        return f"{self.file.stem} {self.name}" + (f" {self.backend}" if self.deviates else "")


def variants(file: Path) -> list[Variant]:
    """What the docstring of a case states."""
    text = file.read_text().split('"""')[1]
    world = int(_found(r"^world: (\d+)", text))
    backend = _found(r"^semantics: (\w+)", text)
    own = re.findall(r"^variant (\w+): (\w+)", text, re.M)
    other = re.findall(r"^variant (\w+) under (\w+): (\w+)", text, re.M)
    return [Variant(file, name, world, backend, verdict, False) for name, verdict in own] + [
        Variant(file, name, world, rules, verdict, True) for name, rules, verdict in other
    ]


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.M)
    assert match is not None, f"the case does not state {pattern}"
    return match[1]


ALL = [variant for file in sorted(CASES.glob("*.py")) for variant in variants(file)]


def verdict(run: Run, world: int) -> str:
    """What PRISM makes of a run, in the words of the cases."""
    diagnosis = run.result.diagnosis
    if diagnosis is None:
        finished = sum("CASE" in text and " ok" in text for text in run.output)
        assert finished == world, f"only {finished} of {world} ranks found their values right"
        return "WARN" if run.result.warnings else "OK"
    if diagnosis.kind == "rank_failed":
        return "ERROR"
    return diagnosis.kind.upper()


@pytest.mark.parametrize("variant", ALL, ids=lambda variant: variant.title.replace(" ", "-"))
def test_verdict(variant: Variant, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if variant.title in SINCE and Version(torch.__version__) < Version(SINCE[variant.title]):
        pytest.skip(f"torch {torch.__version__} does not check this; torch {SINCE[variant.title]} does")
    if variant.title in UNDECIDABLE:
        request.applymarker(pytest.mark.xfail(reason=UNDECIDABLE[variant.title], strict=True))
    given = scenario(
        variant.file,
        world=variant.world,
        program=Program(script=str(variant.file), args=(variant.name,), env={"BACKEND": variant.backend}),
        semantics="auto",
        hang_after=3 * 10**9,
    )
    run = capture(given, tmp_path / "out")
    expected = {DEVIATIONS.get(variant.title, variant.verdict)}
    if expected == {"EXIT"}:
        expected = {"ERROR", "DEADLOCK"}  # a rank that ended badly, or one that ended while others wait for it
    assert verdict(run, variant.world) in expected, run.result.diagnosis or run.result.warnings
    if variant.title in WARNINGS:
        assert WARNINGS[variant.title] in [warning.kind for warning in run.result.warnings]
    if run.result.diagnosis is not None:
        _check_sites(variant, run.result.diagnosis)


def _check_sites(variant: Variant, diagnosis: Diagnosis) -> None:
    """All sites are told of; but a rank that had no slot yet when another failed stands nowhere."""
    lines = variant.file.read_text().splitlines()
    told = " ".join([diagnosis.summary, *(f"{r.callsite} {r.traceback}" for r in diagnosis.ranks)])
    sites = SITES.get(variant.title, "")
    numbers = [next(n for n, line in enumerate(lines, 1) if f"# site {site}" in line) for site in sites]
    shown = [number for number in numbers if re.search(rf"{variant.file.name}(:|\", line ){number}\b", told)]
    absent = sum(rank.state == "new" for rank in diagnosis.ranks)
    assert len(shown) >= max(len(numbers) - absent, min(len(numbers), 1)), f"lines {numbers} are not all in: {told}"
