"""Verification: ranks that are folded do what their representatives did, or the first difference is told."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from prism.core.calls import Call, Ref
from prism.core.events import AnyEvent, Finished, Marked, Staged, stamp
from prism.core.folding.verification import Verification, choose
from prism.core.graph import OpKind
from prism.core.instructions import AnyInstruction, Deliver, Leave, Release
from prism.core.stage.world import World
from tests.core.actors import SECOND, all_reduce, asked, call, joined, launched, posted, recv, send, waited
from tests.core.test_roles import Stage, payload

PAIRS = {"dp": 3, "tp": 2}
SITE = "train.py:7"


def captured(stage: Stage, *events: AnyEvent) -> Stage:
    """The two ranks of PAIRS that run have done this, and ended."""
    stage.hear(*(joined(rank, (0, 1), "tp") for rank in (0, 1)))
    stage.hear(*events)
    stage.hear(*(Finished(rank=rank, code=0) for rank in (0, 1)))
    return stage


def twice(make: object) -> list[AnyEvent]:
    return [make(0), make(1)]


class Audit:
    """Rank 2 of PAIRS, which is folded, beside what was captured of rank 0."""

    def __init__(self, stage: Stage, payloads: bool = True) -> None:
        self.exchange = Verification(stage.exchange, (2,), payloads)
        self.world = World((2,), 1, self.exchange, 60 * SECOND)
        self.world.start()
        self.hear(launched(2), joined(2, range(6)), joined(2, (2, 3), "tp"))

    def hear(self, *events: AnyEvent) -> list[AnyInstruction]:
        told: list[AnyInstruction] = []
        for event in events:
            stamp(event, 0)
            told += self.world.handle(event)
        return told

    @property
    def told(self) -> str:
        return self.world.diagnosis.summary if self.world.diagnosis is not None else ""


def summed(rank: int, group: str = "tp", count: int = 4, site: str = SITE, checksum: int = 5) -> AnyEvent:
    event = posted(rank, 1, all_reduce(count), group, payload(rank), site)
    return msgspec.structs.replace(event, checksum=checksum)


def test_it_is_given_what_its_representative_got() -> None:
    stage = captured(Stage(PAIRS, "dp"), *twice(summed))
    stage.exchange.record_of(0).steps[0].result = Ref("result", 0, 16)
    audit = Audit(stage)
    (deliver,) = (one for one in audit.hear(summed(2)) if isinstance(one, Deliver))
    assert (deliver.handle, deliver.result) == (1, Ref("result", 0, 16))
    audit.hear(Finished(rank=2, code=0))
    assert audit.told == ""
    assert audit.exchange.complete(2)


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (
            summed(2, count=8),
            "rank 2 is not like rank 0, which stands for it: at step 1, count of all_reduce at train.py:7: "
            "rank 0 has 4, rank 2 has 8",
        ),
        (
            summed(2, site="train.py:9"),
            "what is done: rank 0 has all_reduce of 4 x float32 on group tp at train.py:7, "
            "rank 2 has all_reduce of 4 x float32 on group tp at train.py:9",
        ),
        (
            summed(2, group="default"),
            "ranks of all_reduce at train.py:7: rank 0 has [2, 3], rank 2 has [0, 1, 2, 3, 4, 5]",
        ),
        (
            summed(2, checksum=6),
            "checksum of the bytes that it puts into all_reduce at train.py:7: rank 0 has 00000005, rank 2 has 00000006"
            "; nothing is wrong where replicas have shards of the weights (FSDP over a folded dimension) or data of "
            "their own: then write `compare: steps` in fold, which compares all but the bytes",
        ),
        (
            Marked(rank=2),
            "rank 0 has all_reduce of 4 x float32 on group tp at train.py:7, rank 2 has the end of an iteration",
        ),
        (waited(2, 1), "rank 2 has a wait for its operations [1] at ?"),
        (Finished(rank=2, code=0), "rank 0 has all_reduce of 4 x float32 on group tp at train.py:7, rank 2 has ended"),
    ],
)
def test_the_first_difference_is_told(event: AnyEvent, told: str) -> None:
    audit = Audit(captured(Stage(PAIRS, "dp"), *twice(summed)))
    audit.hear(event)
    assert told in audit.told
    assert audit.world.diagnosis.kind == "diverged"
    assert [state.rank for state in audit.world.diagnosis.ranks] == [2]


def test_what_it_puts_into_a_sum_is_given_back() -> None:
    audit = Audit(captured(Stage(PAIRS, "dp"), *twice(summed)))
    told = [*audit.hear(summed(2)), *audit.hear(Finished(rank=2, code=0))]
    assert Release(rank=2, payload=payload(2)) in [msgspec.structs.replace(one, cause=0) for one in told]


def later(rank: int) -> AnyEvent:
    """The same sum, whose input is on its way from a device."""
    return msgspec.structs.replace(summed(rank, checksum=0), staged=False)


def staged(rank: int, checksum: int = 5) -> AnyEvent:
    return Staged(rank=rank, handle=1, checksum=checksum)


def test_of_a_device_the_bytes_are_compared_once_they_are_there() -> None:
    stage = captured(Stage(PAIRS, "dp"), *twice(later), *twice(staged))
    stage.exchange.record_of(0).steps[0].result = Ref("result", 0, 16)
    audit = Audit(stage)
    assert audit.hear(later(2)) == []  # what it gets may lie where its input is still read
    assert [type(one) for one in audit.hear(staged(2))] == [Deliver]
    assert [type(one) for one in audit.hear(Finished(rank=2, code=0))] == [Release, Leave]
    assert audit.told == ""


def test_of_a_device_other_bytes_are_told_with_the_step_that_has_them() -> None:
    stage = captured(Stage(PAIRS, "dp"), *twice(later), *twice(staged), *(Marked(rank=rank) for rank in (0, 1)))
    audit = Audit(stage)
    audit.hear(later(2), Marked(rank=2), staged(2, checksum=6))
    assert "at step 1, checksum of the bytes" in audit.told
    assert "rank 0 has 00000005, rank 2 has 00000006" in audit.told


def test_what_it_broadcasts_is_in_the_record_and_stays() -> None:
    cast = call(OpKind.BROADCAST, root=0)
    of_the_others = [posted(0, 1, cast, payload=payload(0), site=SITE), posted(1, 1, cast, site=SITE)]
    audit = Audit(captured(Stage(PAIRS, "dp"), *of_the_others))
    audit.hear(joined(2, (2, 3), "pair"))
    told = audit.hear(posted(2, 1, cast, payload=payload(2), site=SITE))
    assert not [one for one in told if isinstance(one, Release)]


def test_more_than_was_captured_is_a_difference() -> None:
    audit = Audit(captured(Stage(PAIRS, "dp")))
    audit.hear(summed(2))
    assert "at step 1, what is done: rank 0 has ended, rank 2 has all_reduce" in audit.told


def test_bytes_may_differ_where_replicas_have_data_of_their_own() -> None:
    audit = Audit(captured(Stage(PAIRS, "dp"), *twice(summed)), payloads=False)
    audit.hear(summed(2, checksum=6))
    assert audit.told == ""


def test_peers_move_along() -> None:
    """On the default group a message to the neighbour is one to the neighbour's neighbour there."""
    events = [posted(0, 1, send(to=1), payload=payload(0), site=SITE), posted(1, 1, recv(source=0), site=SITE)]
    audit = Audit(captured(Stage(PAIRS, "dp"), *events))
    audit.hear(posted(2, 1, send(to=3), payload=payload(2), site=SITE))
    assert audit.told == ""
    audit = Audit(captured(Stage(PAIRS, "dp"), *events))
    audit.hear(posted(2, 1, send(to=1), payload=payload(2), site=SITE))
    assert "peer of send at train.py:7: rank 0 has 3, rank 2 has 1" in audit.told


def test_a_message_comes_from_where_its_sender_lies() -> None:
    events = [posted(1, 1, send(to=0), payload=payload(1), site=SITE), posted(0, 1, recv(), site=SITE)]
    audit = Audit(captured(Stage(PAIRS, "dp"), *events))
    (deliver,) = (one for one in audit.hear(posted(2, 1, recv(), site=SITE)) if isinstance(one, Deliver))
    assert (audit.told, deliver.source, deliver.result) == ("", 3, payload(1))


def exchange(sends: Sequence[int], gets: Sequence[int]) -> Call:
    return call(OpKind.ALL_TO_ALL, sum(sends), send=tuple(sends), recv=tuple(gets))


def test_parts_of_an_exchange_go_round() -> None:
    sizes = (1, 1, 2, 2, 3, 3)
    back = (1, 1, 3, 3, 2, 2)
    events = [posted(rank, 1, exchange(sizes, back), payload=payload(rank, 48), site=SITE) for rank in (0, 1)]
    audit = Audit(captured(Stage(PAIRS, "dp"), *events))
    audit.hear(posted(2, 1, exchange((3, 3, 1, 1, 2, 2), (2, 2, 1, 1, 3, 3)), payload=payload(2, 48), site=SITE))
    assert audit.told == ""
    audit = Audit(captured(Stage(PAIRS, "dp"), *events))
    audit.hear(posted(2, 1, exchange(sizes, back), payload=payload(2, 48), site=SITE))
    assert (
        "send of all_to_all at train.py:7: rank 0 has (3, 3, 1, 1, 2, 2), rank 2 has (1, 1, 2, 2, 3, 3)" in audit.told
    )


def test_a_root_that_does_not_move_gives_to_the_others() -> None:
    """Rank 0 is the root of a broadcast, so it puts something in and gets nothing; rank 2 gets it."""
    cast = call(OpKind.BROADCAST, root=0)
    events = [posted(0, 1, cast, payload=payload(0), site=SITE), posted(1, 1, cast, site=SITE)]
    audit = Audit(captured(Stage(PAIRS, "dp"), *events))
    (deliver,) = (one for one in audit.hear(posted(2, 1, cast, site=SITE)) if isinstance(one, Deliver))
    assert (audit.told, deliver.result) == ("", payload(0))


def test_the_store_is_that_of_the_capture() -> None:
    stage = Stage(PAIRS, "dp")
    stage.hear(asked(0, "set", "key", value=b"1"))
    audit = Audit(captured(stage))
    assert audit.hear(asked(2, "get", "key"))[0].value == b"1"


def test_who_is_verified_follows_from_the_seed() -> None:
    folding = Stage({"dp": 64, "tp": 2}, "dp").folding
    chosen = choose(folding, 5, seed=1)
    assert chosen == choose(folding, 5, seed=1) != choose(folding, 5, seed=2)
    assert len(set(chosen)) == 5
    assert not set(chosen) & set(folding.representatives)
    assert chosen == tuple(sorted(chosen))
