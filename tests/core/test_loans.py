"""Results that nobody keeps: their bytes are lent, and given back once all that copy them have done so."""

from __future__ import annotations

from prism.core.events import Delivered, Exited, Finished
from prism.core.graph import OpKind
from prism.core.instructions import AnyInstruction, Deliver, Leave, Release
from prism.core.stage.kept import Kept
from tests.core.actors import Stage, bytes_of, call, on_stage, posted

LARGE = call(OpKind.BROADCAST, 4096, root=0)


def leaves(stage: Stage, *ranks: int) -> list[AnyInstruction]:
    """What is said to ranks whose programs are over."""
    return stage.hear(*(Finished(rank=rank, code=0) for rank in ranks))


class TestResultsThatAreNotKept:
    def broadcast(self) -> Stage:
        """Rank 0 has sent ranks 1 and 2 what is not kept, and is told nothing before both have it."""
        stage = on_stage(3, kept=Kept(payloads="control"))
        told = stage.hear(posted(0, 1, LARGE, payload=self.sent), posted(1, 1, LARGE), posted(2, 1, LARGE))
        assert told == [Deliver(rank=0, handle=1), *(Deliver(rank=r, handle=1, result=self.sent) for r in (1, 2))]
        return stage

    sent = bytes_of(0, 1, 4 * 4096)

    def test_their_bytes_are_released_once_all_have_copied_them(self) -> None:
        stage = self.broadcast()
        assert stage.hear(Delivered(rank=0, handle=1), Delivered(rank=2, handle=1)) == []
        assert stage.hear(Delivered(rank=1, handle=1)) == []
        assert leaves(stage, 0) == [Release(rank=0, payload=self.sent), Leave(rank=0)]

    def test_who_is_gone_copies_nothing(self) -> None:
        stage = self.broadcast()
        assert leaves(stage, 1) == [Leave(rank=1)]
        assert stage.hear(Delivered(rank=2, handle=1), Exited(rank=1, code=0)) == []
        assert leaves(stage, 0) == [Release(rank=0, payload=self.sent), Leave(rank=0)]

    def test_whose_owner_is_gone_are_released_by_nobody(self) -> None:
        stage = self.broadcast()
        assert stage.hear(Exited(rank=0, code=0), *(Delivered(rank=r, handle=1) for r in (1, 2))) == []

    def test_that_nobody_reads_are_released_at_once(self) -> None:
        stage = on_stage(1, kept=Kept(payloads="control"))
        told = stage.hear(posted(0, 1, LARGE, payload=self.sent))
        assert told == [Deliver(rank=0, handle=1)]
        assert leaves(stage, 0) == [Release(rank=0, payload=self.sent), Leave(rank=0)]
