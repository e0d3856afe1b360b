"""What a capture leaves in the record of an operation, and what it does with a result that it does not keep."""

from __future__ import annotations

from prism.core.calls import Call, Ref
from prism.core.contribution import Part
from prism.core.events import Folded
from prism.core.graph import OpKind
from prism.core.record import PostStep, RankRecord
from prism.core.stage.capture import Capture
from prism.core.stage.exchange import Done, FoldDue, Lent, Outcome, Spent
from prism.core.stage.kept import Kept, PayloadCount
from tests.core.actors import all_reduce, bytes_of, call, joined, posted, recv, send

LARGE = 2048  # elements of float32


def capturing(size: int, **kept: object) -> Capture:
    made = Capture(range(size), Kept(**kept))
    for rank in range(size):
        made.join(joined(rank, range(size)))
    return made


def post(made: Capture, *calls: Call, handle: int = 1) -> list[Outcome]:
    """Every rank posts its call, with bytes where it gives some; returns what follows from the last one."""
    outcomes: list[Outcome] = []
    for rank, of in enumerate(calls):
        gives = of.kind is not OpKind.SEND_RECV or of.sends
        gives = gives and (of.kind is not OpKind.BROADCAST or of.root == rank)
        outcomes = made.post(posted(rank, handle, of, payload=bytes_of(rank, handle, 4 * of.count) if gives else None))
    return outcomes


def steps(made: Capture) -> list[PostStep]:
    """The last step of each rank."""
    return [record.steps[-1] for record in made.records]


def test_a_sum_is_asked_for_its_parts_and_they_are_noted_with_its_sandbox_ranks() -> None:
    made = capturing(4, sandbox=(1, 2), contribution="prefolded")
    (due,) = post(made, *[all_reduce()] * 4)
    assert due == FoldDue(due.op, 3, (Part("before", 1, 2), Part("after", 2, 2)))
    sums = (Ref("result", 16, 16), Ref("result", 32, 16))
    made.folded(Folded(rank=3, op=0, results=(Ref("result", 0, 16),), parts=sums))
    assert [(step.before, step.after, step.rest) for step in steps(made)] == [
        (None, None, None), (sums[0], None, None), (None, sums[1], None), (None, None, None),
    ]  # fmt: skip
    assert made.payloads == PayloadCount(kept_bytes=48)


def test_the_sum_of_the_virtual_ranks_is_noted_with_all_sandbox_ranks() -> None:
    made = capturing(4, sandbox=(1, 2), contribution="left")
    post(made, *[all_reduce()] * 4)
    rest = Ref("result", 16, 16)
    made.folded(Folded(rank=3, op=0, results=(Ref("result", 0, 16),), parts=(rest,)))
    assert [step.rest for step in steps(made)] == [None, rest, rest, None]


def test_only_reductions_have_parts() -> None:
    made = capturing(2, sandbox=(0,), contribution="left")
    gather = call(OpKind.ALL_GATHER, 4, recv=(4, 4))
    (due,) = post(made, gather, gather)
    assert due.parts == ()
    for number, kind in enumerate((OpKind.ALL_REDUCE, OpKind.REDUCE, OpKind.REDUCE_SCATTER), start=2):
        of = call(kind, 4, reduce="sum", root=0 if kind is OpKind.REDUCE else -1, send=(2, 2))
        (due,) = post(made, of, of, handle=number)
        assert due.parts == (Part("rest", -1, 2, (0,)),)


def test_a_sum_that_is_not_kept_has_no_parts_either() -> None:
    made = capturing(2, payloads="control", sandbox=(0,), contribution="left")
    (due,) = post(made, *[all_reduce(LARGE)] * 2)
    assert due.parts == ()


def test_a_result_that_is_not_kept_is_delivered_and_lent() -> None:
    made = capturing(2, payloads="control")
    post(made, *[all_reduce(LARGE)] * 2)
    result = Ref("rank1", 0, 4 * LARGE)
    assert made.folded(Folded(rank=1, op=0, results=(result,))) == [
        Done(0, 1, result),
        Done(1, 1, result),
        Lent(1, result, ((0, 1), (1, 1))),
        Spent(0, bytes_of(0, 1, 4 * LARGE)),
        Spent(1, bytes_of(1, 1, 4 * LARGE)),
    ]
    assert [(step.result, step.dropped) for step in steps(made)] == [(None, 4 * LARGE)] * 2
    assert made.payloads == PayloadCount(dropped_bytes=4 * LARGE, synthesised_ops=1)


def test_a_message_that_is_not_kept_is_lent_by_its_sender() -> None:
    made = capturing(2, payloads="control")
    sent = bytes_of(0, 1, 4 * LARGE)
    assert post(made, send(1, LARGE), recv(0, LARGE)) == [
        Done(0, 1, None), Done(1, 1, sent, source=0), Lent(0, sent, ((1, 1),)),
    ]  # fmt: skip
    assert [step.dropped for step in steps(made)] == [0, 4 * LARGE]


def test_a_broadcast_that_is_not_kept_is_lent_by_its_root() -> None:
    made = capturing(2, payloads="none")
    of = call(OpKind.BROADCAST, 4, root=1)
    assert post(made, of, of)[-1] == Lent(1, bytes_of(1, 1), ((0, 1),))


def test_each_result_of_an_all_to_all_is_judged_by_itself() -> None:
    made = capturing(2, payloads="control")
    post(
        made,
        call(OpKind.ALL_TO_ALL, LARGE + 1, send=(1, LARGE), recv=(1, 1)),
        call(OpKind.ALL_TO_ALL, LARGE + 1, send=(1, LARGE), recv=(LARGE, LARGE)),
    )
    results = (Ref("rank1", 0, 8), Ref("rank1", 64, 8 * LARGE))
    outcomes = made.folded(Folded(rank=1, op=0, results=results))
    assert [outcome for outcome in outcomes if isinstance(outcome, Lent)] == [Lent(1, results[1], ((0, 1), (1, 1)))]
    assert [(step.result, step.dropped) for step in steps(made)] == [(results[0], 0), (None, 8 * LARGE)]
    assert made.payloads == PayloadCount(kept_bytes=8, dropped_bytes=8 * LARGE, synthesised_ops=1)


def test_a_shard_of_a_sum_goes_with_the_sum() -> None:
    made = capturing(2, payloads="control")
    of = call(OpKind.REDUCE_SCATTER, LARGE, reduce="sum", send=(LARGE, 0))
    post(made, of, of)
    made.folded(Folded(rank=1, op=0, results=(Ref("rank1", 0, 4 * LARGE),)))
    assert [(step.result, step.dropped) for step in steps(made)] == [(None, 4 * LARGE), (None, 0)]


def test_a_record_from_before_there_were_partial_sums_can_be_read() -> None:
    made = capturing(1)
    post(made, call(OpKind.BROADCAST, 4, root=0))
    (step,) = made.records[0].steps
    old = RankRecord(0, [("post", *[getattr(step, name) for name in PostStep.__struct_fields__[:8]])])
    assert RankRecord.decode(old.encode()) == RankRecord(0, [step])
