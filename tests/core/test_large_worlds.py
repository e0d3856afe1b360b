"""What keeps a large world cheap: what is done for an event, or kept of it, does not grow with the number of ranks."""

from __future__ import annotations

import pytest

from prism.core.calls import Ref, Reply, StoreCall
from prism.core.events import Exited, Finished, Posted
from prism.core.graph import OpKind
from prism.core.record import PostStep
from prism.core.stage import matching, verdict, world
from prism.core.stage.matching import Matcher
from prism.core.stage.op import Op, share
from prism.core.stage.situation import Situation
from prism.core.stage.store import Store
from prism.core.stage.stuck import stuck_ranks
from tests.core.actors import MS, Stage, asked, call, on_stage, posted, recv, send, waited

LARGE = 2 * world.MANY + 1
"""Ranks of a world of which all are looked at every third time."""


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A number for each time that all ranks were looked at: how many can never go on."""
    found: list[int] = []

    def watched(seen: Situation) -> list[int]:
        stuck = stuck_ranks(seen)
        found.append(len(stuck))
        return stuck

    monkeypatch.setattr(verdict, "stuck_ranks", watched)
    return found


def _two_that_wait_for_each_other(size: int) -> Stage:
    stage = on_stage(size)
    stage.hear(posted(0, 1, recv(1)), waited(0, 1), posted(1, 1, recv(0)), waited(1, 1))
    return stage


def test_a_small_world_is_looked_at_each_tick(looks: list[int]) -> None:
    stage = _two_that_wait_for_each_other(3)
    stage.pass_time(50 * MS)
    assert looks == [2]
    assert stage.world.diagnosis is not None


def test_a_large_one_more_rarely_and_what_is_stuck_is_told_all_the_same(looks: list[int]) -> None:
    stage = _two_that_wait_for_each_other(LARGE)
    stage.pass_time(50 * MS)
    stage.pass_time(50 * MS)
    assert looks == []
    stage.pass_time(50 * MS)
    assert looks == [2]
    assert stage.world.diagnosis is not None
    assert stage.world.diagnosis.kind == "deadlock"


def test_a_large_one_in_which_nobody_can_act_is_looked_at_at_once(looks: list[int]) -> None:
    stage = on_stage(LARGE)
    for rank in range(LARGE):
        stage.hear(posted(rank, 1, recv((rank + 1) % LARGE)), waited(rank, 1))
    assert looks == [LARGE]
    assert stage.world.diagnosis is not None


def test_exits_do_not_each_look_at_all_ranks(looks: list[int]) -> None:
    stage = on_stage(LARGE)
    for rank in range(LARGE - 1):
        stage.hear(Finished(rank=rank, code=0), Exited(rank=rank, code=0))
    assert len(looks) == (LARGE - 1) // 3


def test_equal_calls_are_kept_once() -> None:
    stage = on_stage(4)
    for rank in range(4):
        stage.hear(posted(rank, 1, call(OpKind.ALL_GATHER, 4, recv=tuple([4] * 4)), payload=Ref(f"{rank}", 0, 16)))
    steps = [record.steps[0] for record in stage.exchange.records]
    calls = {id(step.call) for step in steps if isinstance(step, PostStep)}
    assert len(steps) == 4
    assert len(calls) == 1
    assert {id(post.call) for post in stage.exchange.matcher.ops[0].posts.values()} == calls


def test_sizes_that_are_alike_for_all_are_worked_out_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_for: list[tuple[int, int]] = []
    plain = Op.sent

    def sent(op: Op, sender: int, receiver: int) -> int:
        asked_for.append((sender, receiver))
        return plain(op, sender, receiver)

    monkeypatch.setattr(matching.Op, "sent", sent)
    stage = on_stage(16)
    for rank in range(16):
        stage.hear(posted(rank, 1, call(OpKind.ALL_GATHER, 4, recv=tuple([4] * 16)), payload=Ref(f"{rank}", 0, 16)))
    assert stage.exchange.broken is None
    assert len(asked_for) == 16


def test_a_size_that_one_member_does_not_expect_is_still_found() -> None:
    stage = on_stage(3)
    posts: list[Posted] = []
    for rank in range(3):
        recv_sizes = (4, 4, 5) if rank == 1 else (4, 4, 4)
        posts.append(posted(rank, 1, call(OpKind.ALL_GATHER, 4, recv=recv_sizes), payload=Ref(f"{rank}", 0, 16)))
    stage.hear(*posts)
    assert stage.exchange.broken is not None
    assert stage.exchange.broken.broken == "elements from rank 2 to rank 1: 4 are sent, 5 are awaited"


def test_the_part_of_a_member_needs_no_table_of_all() -> None:
    whole = Ref("result", 0, 48)
    assert share(OpKind.REDUCE_SCATTER, 2, -1, (whole,), 3, (1, 2, 3), 8) == whole.part(24, 24)


def test_who_waits_for_a_key_is_answered_in_the_order_of_ranks() -> None:
    stage = on_stage(4)
    stage.hear(asked(3, "get", "k"), asked(1, "get", "k"), asked(2, "get", "other"))
    stage.hear(asked(0, "set", "k", value=b"v"))
    assert stage.states() == ["running", "running", "blocked", "running"]
    stage.hear(asked(0, "set", "other", value=b"v", number=2))
    assert stage.states() == ["running"] * 4


@pytest.mark.parametrize("source", [-1, None])
def test_a_message_is_compared_with_those_between_the_same_two_alone(
    monkeypatch: pytest.MonkeyPatch, source: int | None
) -> None:
    """All await something of their neighbours, then the last one sends first."""
    compared: list[tuple[int, int]] = []
    plain = Matcher._meets

    def meets(matcher: Matcher, group: object, me: int, mine: object, other: int, theirs: object) -> bool:
        compared.append((me, other))
        return plain(matcher, group, me, mine, other, theirs)  # type: ignore[arg-type]

    monkeypatch.setattr(Matcher, "_meets", meets)
    stage = on_stage(16)
    for rank in range(16):
        stage.hear(posted(rank, 1, recv((rank - 1) % 16 if source is None else source)))
    for rank in reversed(range(16)):
        stage.hear(posted(rank, 2, send((rank + 1) % 16), payload=Ref(f"{rank}", 0, 16)))
    assert compared == [(rank, (rank + 1) % 16) for rank in reversed(range(16))]
    assert len([op for op in stage.exchange.matcher.ops if op.done]) == 16


def test_a_key_wakes_those_alone_who_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    plain = Store.ask

    def ask(store: Store, request: StoreCall) -> Reply | None:
        calls.append(request.action)
        return plain(store, request)

    stage = on_stage(9)
    stage.hear(*(asked(rank, "get", f"key of {rank}") for rank in range(1, 9)))
    monkeypatch.setattr(Store, "ask", ask)
    for rank in range(1, 9):
        stage.hear(asked(0, "set", f"key of {rank}", value=b"v", number=rank))
    assert calls == ["set", "get"] * 8
    assert stage.states() == ["running"] * 9
