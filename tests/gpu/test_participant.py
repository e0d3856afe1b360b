"""Which operation of the engine a post of a sandbox rank is, whatever the order in which its threads post."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

pytest.importorskip("prism.gpu.pruned", exc_type=ImportError)
from prism.core.record import PostStep
from prism.gpu.emulation.participant import Participant
from prism.net.board import Board
from prism.net.schedule import Plain, SandboxPart, Schedule
from tests.core.actors import all_reduce, barrier, posted

STEPS = [
    PostStep("default", 1, all_reduce(), ""),
    PostStep("saving", 2, barrier(), "", main=False),
    PostStep("default", 3, all_reduce(8), ""),
    PostStep("saving", 4, barrier(), "", main=False),
]
OPS = [5, 6, 7, -1]


@pytest.fixture
def participant() -> Participant:
    plain = Plain("zeros", {}, [SandboxPart(3, OPS, STEPS)])
    schedule = cast(Schedule, SimpleNamespace(touching=SimpleNamespace(sandbox=(1, 3)), plain=plain))
    return Participant(3, Path(), schedule, cast(Board, None), recorded=False, failed=lambda error: None)


def test_posts_are_those_of_the_record_in_its_order(participant: Participant) -> None:
    taken = [participant.take(posted(3, step.handle, step.call, step.group, main=step.main)) for step in STEPS]
    assert taken == [(5, STEPS[0]), (6, STEPS[1]), (7, STEPS[2]), None], "the last one never completes"
    assert participant.take(posted(3, 5, all_reduce())) is None, "one more than was captured"


def test_another_thread_may_post_later_than_in_the_capture(participant: Participant) -> None:
    assert participant.take(posted(3, 1, all_reduce())) == (5, STEPS[0])
    assert participant.take(posted(3, 2, all_reduce(8))) == (7, STEPS[2])
    assert participant.take(posted(3, 3, barrier(), "saving", main=False)) == (6, STEPS[1])
    assert participant.take(posted(3, 4, barrier(), "saving", main=False)) is None


def test_another_thread_may_post_earlier_than_in_the_capture(participant: Participant) -> None:
    assert participant.take(posted(3, 1, barrier(), "saving", main=False)) == (6, STEPS[1])
    assert participant.take(posted(3, 2, all_reduce())) == (5, STEPS[0])
    assert participant.take(posted(3, 3, all_reduce(8))) == (7, STEPS[2])


def test_another_call_is_not_carried_out(participant: Participant) -> None:
    assert participant.take(posted(3, 1, barrier())) is None


def test_nor_is_a_call_on_another_group(participant: Participant) -> None:
    assert participant.take(posted(3, 1, all_reduce(), "other")) is None
