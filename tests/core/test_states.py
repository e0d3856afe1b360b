"""The table of states: every pair is a row or an error with the rank's story; the documents show the same table."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from prism.core.stage.ranks import STORY_LENGTH, Rank
from prism.core.stage.states import ACTS, HOLDS_SLOT, TRANSITIONS, State, Trigger, diagram, step
from prism.errors import InvalidTransition

PAIRS = list(itertools.product(State, Trigger))
ROWS = [(state, trigger) for state, trigger in PAIRS if trigger in TRANSITIONS[state]]
OTHERS = [(state, trigger) for state, trigger in PAIRS if trigger not in TRANSITIONS[state]]


@pytest.mark.parametrize(("state", "trigger"), ROWS)
def test_a_row_leads_to_its_state(state: State, trigger: Trigger) -> None:
    rank = Rank(3, state=state)
    assert rank.move(trigger, cause=7) is state
    assert rank.state is TRANSITIONS[state][trigger]
    assert list(rank.story) == [(7, trigger, state, rank.state)]


@pytest.mark.parametrize(("state", "trigger"), OTHERS)
def test_what_is_no_row_is_refused_with_the_rows_and_the_story(state: State, trigger: Trigger) -> None:
    rank = Rank(3, state=state)
    rank.story.append((1, Trigger.GRANT, State.NEW, State.LAUNCHING))
    with pytest.raises(InvalidTransition) as refusal:
        rank.move(trigger, cause=7)
    text = str(refusal.value)
    assert text.startswith(f"{trigger.value!r} is not a row of state {state.value!r} (it has ")
    assert all(legal.value in text for legal in TRANSITIONS[state])
    assert text.endswith("; rank 3: #1 grant: new -> launching")
    assert rank.state is state


def test_the_story_of_a_rank_is_its_last_moves() -> None:
    rank = Rank(0, state=State.RUNNING)
    for cause in range(STORY_LENGTH + 5):
        rank.move(Trigger.SPEAK, cause)
    assert rank.story[0][0] == 5
    assert len(rank.story) == STORY_LENGTH


def test_a_rank_without_a_story_is_told_too() -> None:
    with pytest.raises(InvalidTransition, match="rank 0: nothing before"):
        Rank(0).move(Trigger.FINISHED, cause=1)


def test_every_state_but_the_first_is_reached_and_every_trigger_has_a_row() -> None:
    assert {target for row in TRANSITIONS.values() for target in row.values()} == set(State) - {State.NEW}
    assert {trigger for row in TRANSITIONS.values() for trigger in row} == set(Trigger)


def test_a_process_may_be_gone_in_every_state_in_which_there_is_one() -> None:
    for state in set(State) - {State.NEW}:
        assert step(state, Trigger.EXITED, "") is State.ENDED


def test_who_holds_a_slot_can_act() -> None:
    assert HOLDS_SLOT < ACTS
    assert {State.BLOCKED, State.FINISHING, State.ENDED}.isdisjoint(ACTS)


def test_the_diagram_in_the_documents_is_that_of_the_table() -> None:
    text = (Path(__file__).parents[2] / "docs" / "states.md").read_text()
    shown = text.partition("```mermaid\n")[2].partition("```")[0]
    assert shown == diagram(), (
        "docs/states.md shows another table; put between its ```mermaid and ``` what this prints: "
        "python -c 'from prism.core.stage.states import diagram; print(diagram(), end=\"\")'"
    )
