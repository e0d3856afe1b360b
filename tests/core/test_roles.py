"""Standing in by role: what the ranks that do not run put into an operation, and what those that run get."""

from __future__ import annotations

from collections.abc import Sequence

from prism.core.calls import Call, Ref
from prism.core.events import AnyEvent, Exited, Finished, Folded, stamp
from prism.core.folding.roles import FoldedCapture
from prism.core.folding.shape import Folding
from prism.core.graph import OpKind
from prism.core.instructions import AnyInstruction, Deliver, Fold
from prism.core.stage.world import World
from tests.core.actors import SECOND, all_reduce, barrier, call, joined, launched, posted, recv, send, waited


class Stage:
    """The representatives of a folding on a stage, all of them running, with the default group made."""

    def __init__(self, mesh: dict[str, int], *over: str) -> None:
        self.folding = Folding(mesh, over)
        self.exchange = FoldedCapture(self.folding)
        ranks = self.folding.representatives
        self.world = World(ranks, len(ranks), self.exchange, 60 * SECOND)
        self.world.start()
        everyone = range(self.folding.world_size)
        self.hear(*(event for rank in ranks for event in (launched(rank), joined(rank, everyone))))

    def hear(self, *events: AnyEvent) -> list[AnyInstruction]:
        told: list[AnyInstruction] = []
        for event in events:
            stamp(event, 0)
            told += self.world.handle(event)
        return told

    def folds(self, *events: AnyEvent) -> list[Fold]:
        return [one for one in self.hear(*events) if isinstance(one, Fold)]

    def delivers(self, *events: AnyEvent) -> list[Deliver]:
        return [one for one in self.hear(*events) if isinstance(one, Deliver)]


def payload(rank: int, nbytes: int = 16) -> Ref:
    return Ref(f"rank{rank}", 0, nbytes)


def exchange(send_to: Sequence[int], get: Sequence[int]) -> Call:
    return call(OpKind.ALL_TO_ALL, sum(send_to), send=tuple(send_to), recv=tuple(get))


def test_a_sum_has_the_input_of_every_member() -> None:
    stage = Stage({"dp": 3, "tp": 2}, "dp")
    (fold,) = stage.folds(*(posted(rank, 1, all_reduce(), payload=payload(rank)) for rank in (0, 1)))
    assert fold.inputs == (payload(0), payload(1)) * 3


def test_an_op_waits_for_all_that_run() -> None:
    stage = Stage({"dp": 3, "tp": 2}, "dp")
    assert stage.folds(posted(0, 1, all_reduce(), payload=payload(0)), waited(0, 1)) == []
    assert stage.exchange.find(0, 1).absent == [1]


def test_a_group_of_one_and_its_replicas_is_done_at_once() -> None:
    stage = Stage({"dp": 512}, "dp")
    assert [one.handle for one in stage.delivers(posted(0, 1, barrier()))] == [1]


def test_a_gather_has_the_block_of_the_representative_in_each_place() -> None:
    stage = Stage({"dp": 2, "tp": 2}, "dp")
    gather = call(OpKind.ALL_GATHER, recv=(4,) * 4)
    (fold,) = stage.folds(*(posted(rank, 1, gather, payload=payload(rank)) for rank in (0, 1)))
    assert fold.inputs == (payload(0), payload(1), payload(0), payload(1))


def test_an_all_to_all_goes_round() -> None:
    stage = Stage({"ep": 3}, "ep")
    (fold,) = stage.folds(posted(0, 1, exchange((1, 2, 3), (1, 3, 2)), payload=payload(0, 24)))
    assert fold.routes == ((payload(0).part(0, 4), payload(0).part(12, 12), payload(0).part(4, 8)),)
    assert (fold.inputs, fold.splits) == ((), ())
    result = Ref("result", 0, 24)
    (deliver,) = stage.delivers(Folded(rank=0, op=fold.op, results=(result,)))
    assert deliver.result == result
    assert stage.exchange.matcher.ops[0].splits() == ((1, 2, 3), (3, 1, 2), (2, 3, 1))


def test_what_is_told_by_an_exchange_of_sizes_fits_there_and_back() -> None:
    """Each learns from every member what that sends, exchanges so much, and gets its own back the other way."""
    stage = Stage({"ep": 4}, "ep")
    leaving = (5, 0, 2, 1)
    arriving = tuple(leaving[-sender % 4] for sender in range(4))
    assert stage.folds(posted(0, 1, exchange(leaving, arriving), payload=payload(0, 32)))
    assert stage.folds(posted(0, 2, exchange(arriving, leaving), payload=payload(0, 32)))
    assert stage.world.diagnosis is None


def test_an_all_to_all_of_ranks_that_run_is_as_ever() -> None:
    stage = Stage({"dp": 2, "ep": 2}, "dp")
    stage.hear(*(joined(rank, (0, 1), "ep") for rank in (0, 1)))
    posts = [posted(r, 1, exchange((1, 1), (1, 1)), "ep", payload(r, 8)) for r in (0, 1)]
    (fold,) = stage.folds(*posts)
    assert fold.routes == tuple((payload(0, 8).part(4 * to, 4), payload(1, 8).part(4 * to, 4)) for to in (0, 1))


def test_sizes_that_do_not_agree_are_a_mismatch() -> None:
    stage = Stage({"ep": 3}, "ep")
    stage.hear(posted(0, 1, exchange((1, 2, 3), (1, 2, 3)), payload=payload(0, 24)))
    assert stage.world.diagnosis.kind == "mismatch"
    assert "elements from rank 1 to rank 0: 3 are sent, 2 are awaited" in stage.world.diagnosis.summary


def test_a_shard_of_a_sum_is_that_of_the_rank_itself() -> None:
    stage = Stage({"tp": 2, "dp": 2}, "dp")
    scatter = call(OpKind.REDUCE_SCATTER, 8, reduce="sum", send=(2, 2, 2, 2))
    (fold,) = stage.folds(*(posted(rank, 1, scatter, payload=payload(rank, 32)) for rank in (0, 2)))
    assert fold.splits[0] == (2, 2, 2, 2)
    delivers = stage.delivers(Folded(rank=2, op=fold.op, results=(Ref("result", 0, 32),)))
    assert [one.result for one in delivers] == [Ref("result", 0, 8), Ref("result", 16, 8)]


def test_what_a_rank_that_does_not_run_is_the_root_of_gives_nothing() -> None:
    stage = Stage({"dp": 4}, "dp")
    (mine,) = stage.delivers(posted(0, 1, call(OpKind.BROADCAST, root=3)))
    assert mine.result is None
    (own,) = stage.delivers(posted(0, 2, call(OpKind.SCATTER, root=2)))
    assert own.result is None


def test_a_broadcast_of_a_rank_that_runs_reaches_those_that_run() -> None:
    stage = Stage({"dp": 4, "tp": 2}, "dp")
    posts = (
        posted(0, 1, call(OpKind.BROADCAST, root=0), payload=payload(0)),
        posted(1, 1, call(OpKind.BROADCAST, root=0)),
    )
    assert [(one.rank, one.result) for one in stage.delivers(*posts)] == [(0, None), (1, payload(0))]


def test_a_message_along_a_ring_meets_the_receive_from_the_other_side() -> None:
    stage = Stage({"cp": 4}, "cp")
    delivers = stage.delivers(posted(0, 1, send(to=1), payload=payload(0)), posted(0, 2, recv(source=3)))
    assert {(one.handle, one.result, one.source) for one in delivers} == {(1, None, -1), (2, payload(0), 3)}


def test_a_message_and_a_receive_from_elsewhere_do_not_meet() -> None:
    stage = Stage({"cp": 4}, "cp")
    stage.hear(posted(0, 1, send(to=1), payload=payload(0)), posted(0, 2, recv(source=1)), waited(0, 2))
    assert stage.world.diagnosis.kind == "deadlock"
    assert "rank 0 waits in recv from rank 1 (for which rank 0 stands)" in stage.world.diagnosis.summary


def test_a_deadlock_of_those_that_run_is_told() -> None:
    stage = Stage({"dp": 2, "tp": 2}, "dp")
    stage.hear(posted(0, 1, recv(source=1)), waited(0, 1), posted(1, 1, recv(source=0)), waited(1, 1))
    assert stage.world.diagnosis.kind == "deadlock"


def test_who_has_not_posted_is_told_of_those_that_run() -> None:
    stage = Stage({"dp": 2, "tp": 2}, "dp")
    stage.hear(posted(0, 1, barrier()), waited(0, 1), Finished(rank=1, code=0), Exited(rank=1, code=0))
    assert stage.world.diagnosis.summary.startswith(
        "rank 0 waits in barrier, operation 1 of group default, at ?, which rank 1 has not posted"
    )
    assert "virtual" not in stage.world.diagnosis.summary


def test_a_group_that_does_not_fit_ends_the_run_where_it_is_used() -> None:
    stage = Stage({"dp": 4}, "dp")
    stage.hear(joined(0, (0, 1), "pair"))
    assert stage.world.diagnosis is None
    stage.hear(posted(0, 1, barrier(), "pair"))
    assert stage.world.diagnosis is not None
    assert stage.exchange.unfoldable.startswith("group 'pair' (ranks 0, 1) takes a part of dp, whose extent is 4")


def test_copies_of_groups_are_named_after_their_place_if_nobody_has_told_their_name() -> None:
    stage = Stage({"dp": 3, "tp": 2}, "dp")
    stage.hear(joined(0, (0, 1), "1"), joined(1, (0, 1), "1"), joined(0, (2, 3), "2"))
    names = {group.ranks: group.name for group in stage.exchange.graph().groups}
    assert names == {(0, 1): "1", (2, 3): "2", (4, 5): "1[dp=2]", tuple(range(6)): "default"}


def test_who_dies_over_a_sum_leaves_it_to_another_that_runs() -> None:
    stage = Stage({"tp": 2, "dp": 2}, "dp")
    (fold,) = stage.folds(*(posted(rank, 1, all_reduce(), payload=payload(rank)) for rank in (2, 0)))
    (again,) = stage.folds(Exited(rank=0, code=-9))
    assert (fold.rank, again.rank, again.inputs) == (0, 2, fold.inputs)


def test_a_ring_of_many_has_no_order_that_may_hang() -> None:
    """Each sends to the next before it receives from the one before; of two ranks that is a circle."""

    def warned(size: int) -> list[str]:
        stage = Stage({"cp": size}, "cp")
        stage.hear(joined(0, range(size), "ring", "nccl"))
        ring = (posted(0, 1, send(to=1), "ring", payload(0)), posted(0, 2, recv(source=size - 1), "ring"))
        stage.hear(*ring, waited(0, 1, 2))
        stage.exchange.conclude()
        return [one.kind for one in stage.exchange.warnings.told()]

    assert (warned(2), warned(4)) == (["unsafe_order"], [])
