"""The shape of a folded world, and which groups fit it."""

from __future__ import annotations

import pytest

from prism.core.folding.seats import NotFoldable, seats
from prism.core.folding.shape import Folding

MESH = {"pp": 2, "dp": 4, "tp": 2}


def test_the_representatives_are_at_coordinate_0_of_what_is_folded() -> None:
    assert Folding(MESH, ("dp",)).representatives == (0, 1, 8, 9)
    assert Folding(MESH, ("tp", "dp")).representatives == (0, 8)
    assert Folding(MESH, ("pp", "dp", "tp")).representatives == (0,)


@pytest.mark.parametrize("over", [("dp",), ("dp", "tp"), ("pp", "tp"), ("tp",)])
def test_moving_by_its_shift_takes_a_representative_to_a_rank_and_back(over: tuple[str, ...]) -> None:
    folding = Folding(MESH, over)
    for rank in range(16):
        home, shift = folding.representative(rank), folding.shift(rank)
        assert home in folding.representatives
        assert folding.moved(home, shift) == rank
        assert folding.moved(rank, tuple(-at for at in shift)) == home
    assert folding.copies * len(folding.representatives) == 16


def test_a_move_goes_round_the_end() -> None:
    assert Folding(MESH, ("dp",)).moved(13, (3,)) == 11


def test_a_group_lies_at_a_coordinate_spans_the_dimension_or_takes_even_steps() -> None:
    folding = Folding(MESH, ("dp",))
    assert seats(folding, "tp", (0, 1)).steps == (4,)
    assert seats(folding, "dp", (1, 3, 5, 7)).steps == (1,)
    assert seats(folding, "all", range(16)).steps == (1,)
    assert seats(folding, "every second", (0, 4)).steps == (2,)


def test_members_are_played_by_their_representatives() -> None:
    of = seats(Folding(MESH, ("dp",)), "data", (0, 1, 2, 3, 4, 5, 6, 7))
    assert of.present == (0, 1)
    assert of.player == (0, 1, 0, 1, 0, 1, 0, 1)


def test_what_lies_from_a_member_as_from_its_representative() -> None:
    of = seats(Folding({"ep": 4}, ("ep",)), "ep", range(4))
    assert [of.seen_from(1, other) for other in range(4)] == [3, 0, 1, 2]
    assert of.across.tolist() == [[of.seen_from(i, j) for j in range(4)] for i in range(4)]


def test_seats_need_no_order() -> None:
    of = seats(Folding({"ep": 4}, ("ep",)), "ep", (2, 0, 3, 1))
    assert of.present == (1,)
    assert of.across.tolist() == [[of.seen_from(i, j) for j in range(4)] for i in range(4)]


@pytest.mark.parametrize(
    ("ranks", "told"),
    [
        ((0, 2), "group 'g' (ranks 0, 2) takes a part of dp, whose extent is 4: a group has to lie at one coordinate"),
        ((0, 2, 4), "takes a part of dp"),
        ((0, 1, 2, 4, 6), "does not reach equally far along dp from each of its members"),
    ],
)
def test_other_groups_do_not_fit(ranks: tuple[int, ...], told: str) -> None:
    with pytest.raises(NotFoldable) as caught:
        seats(Folding(MESH, ("dp",)), "g", ranks)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("mesh", "over", "told"),
    [
        ({"dp": 4}, ("pp",), "the mesh has no dimension pp, choose from dp"),
        ({"dp": 0}, ("dp",), "dimension dp has extent 0, expected at least 1"),
    ],
)
def test_a_shape_has_to_fit_together(mesh: dict[str, int], over: tuple[str, ...], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Folding(mesh, over)
