"""Random small programs under PRISM and under real gloo: values and verdicts must agree.

PRISM_RANDOM_PROGRAMS says how many programs the quick round takes. What fails is shrunk and printed as JSON, to be put
in a list in a file and run by `random_programs/interpret.py`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from itertools import compress

import pytest
from random_programs.agreement import Outcome, differences, under_gloo, under_prism
from random_programs.generator import ROOTED, WORLDS, program
from random_programs.mutations import CONTENTS, ORDERS, mutated, without
from random_programs.turns import Data, contradictory

QUICK = int(os.environ.get("PRISM_RANDOM_PROGRAMS", "80"))
ALL = 2000

AT_ONCE = 25
"""Programs that run one after another in one job: starting the ranks of a job costs more than a program."""

TIMEOUT = 6.0
"""Seconds after which a program is taken for one that hangs on gloo: a start and a program take well under one."""

ALONE = 10.0
"""Seconds for a program that runs again, alone, before a disagreement is told."""

JOB = 60.0
"""Seconds for a job of right programs."""

rounds = pytest.mark.parametrize(
    "seeds", [range(QUICK), pytest.param(range(QUICK, ALL), marks=pytest.mark.slow)], ids=["quick", "all"]
)


@rounds
def test_right_programs_give_gloos_values(seeds: range) -> None:
    right = [program(seed) for seed in seeds if seed % 2 == 0]
    by_world = [[made for made in right if made["world"] == world] for world in WORLDS]
    jobs = [same[at : at + AT_ONCE] for same in by_world for at in range(0, len(same), AT_ONCE)]
    for job, gloo in zip(jobs, under_gloo(jobs, JOB), strict=True):
        prism = under_prism(job)
        faults = [value_fault(made, prism, gloo, number) for number, made in enumerate(job)]
        report(list(compress(job, faults)), lambda made: value_fault(made, under_prism([made]), alone(made)))
        assert not any(faults), f"only one after another, seeds {[made['seed'] for made in job]}: {faults}"


@rounds
def test_programs_in_a_wrong_order_end_where_they_end_on_gloo(seeds: range) -> None:
    wrong = wrong_programs(seeds, ORDERS)
    outcomes = zip(wrong, under_gloo([[made] for made in wrong], TIMEOUT), strict=True)
    disagreeing = [made for made, gloo in outcomes if order_fault(made, under_prism([made]), gloo)]
    report(disagreeing, lambda made: order_fault(made, under_prism([made]), alone(made)))


@rounds
def test_programs_with_contradicting_sides_are_told(seeds: range) -> None:
    wrong = wrong_programs(seeds, CONTENTS)
    disagreeing = [made for made in wrong if content_fault(under_prism([made]))]
    report(disagreeing, lambda made: content_fault(under_prism([made])))


def wrong_programs(seeds: range, kinds: Sequence[str]) -> list[Data]:
    wrong = [mutated(program(seed)) for seed in seeds if seed % 2 == 1]
    return [made for made in wrong if made["mutation"]["kind"] in kinds]


def alone(made: Data) -> Outcome:
    return under_gloo([[made]], ALONE)[0]


def report(suspects: list[Data], fault: Callable[[Data], str]) -> None:
    """Fail with the smallest form of the first suspect that is at fault when it runs alone."""
    faulty = next((made for made in suspects if fault(made)), None)
    if faulty is not None:
        smallest = shrunk(faulty, fault)
        seeds = [made["seed"] for made in suspects]
        pytest.fail(f"seed {faulty['seed']} of {seeds}: {fault(smallest)}\n{json.dumps(smallest)}", pytrace=False)


def shrunk(made: Data, fault: Callable[[Data], str]) -> Data:
    """The program without the steps that its fault does not need."""
    for number in reversed(range(len(made["steps"]))):
        smaller = without(made, number)
        if smaller is not None and fault(smaller):
            made = smaller
    return made


def value_fault(made: Data, prism: Outcome, gloo: Outcome, number: int = 0) -> str:
    """What keeps the values of the job's program from being there, or the first that differs; "" for neither."""
    if prism.ended and gloo.ended and not prism.warnings:
        return next(differences(made, prism.values(number), gloo.values(number)), "")
    return both(prism, gloo)


def order_fault(made: Data, prism: Outcome, gloo: Outcome) -> str:
    """Ends on one side only, or ends on both with other values; "" for neither."""
    if prism.ended and gloo.ended:
        return next(differences(made, prism.values(0), gloo.values(0)), "")
    if prism.ended or (gloo.ended and not stricter(made, prism)):
        return both(prism, gloo)
    return ""


def content_fault(prism: Outcome) -> str:
    """A contradiction that was neither a mismatch nor a warning; "" if it was."""
    told = (prism.diagnosis is not None and prism.diagnosis.kind == "mismatch") or any(
        text.startswith("size_mismatch") for text in prism.warnings
    )
    return "" if told else f"PRISM: {verdict(prism)}"


def stricter(made: Data, prism: Outcome) -> bool:
    """Whether PRISM is right to refuse what gloo lets pass.

    Sides that contradict each other may fit by their bytes. And a member may go on from an operation with a root before
    all others have come to it, which gloo does not promise.
    """
    assert prism.diagnosis is not None
    if prism.diagnosis.kind == "mismatch":
        return contradictory(made)
    return any(state.op in ROOTED for state in prism.diagnosis.ranks)


def both(prism: Outcome, gloo: Outcome) -> str:
    return f"gloo {'ended' if gloo.ended else 'did not end'}, PRISM: {verdict(prism)}"


def verdict(prism: Outcome) -> str:
    if prism.diagnosis is None:
        return "; ".join(["ended", *prism.warnings])
    return f"{prism.diagnosis.kind}, {prism.diagnosis.summary}"
