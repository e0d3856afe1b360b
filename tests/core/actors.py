"""Actors for the tests of the world: calls and events made briefly, and a stage on which a world hears them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from prism.core.calls import Call, Ref, StoreCall
from prism.core.diagnosis import Diagnosis
from prism.core.events import AnyEvent, Asked, Joined, Launched, Posted, Ticked, Waited, stamp
from prism.core.graph import OpKind
from prism.core.instructions import AnyInstruction
from prism.core.stage.admission import UNBOUNDED, HostMemory
from prism.core.stage.capture import Capture
from prism.core.stage.kept import EVERYTHING, Kept
from prism.core.stage.world import World

MS = 1_000_000  # ns
SECOND = 1000 * MS
RESULT = Ref("result", 0, 16)


def call(kind: OpKind, count: int = 4, **fields: object) -> Call:
    return Call(kind, "float32", count, **fields)


def all_reduce(count: int = 4) -> Call:
    return call(OpKind.ALL_REDUCE, count, reduce="sum")


def barrier() -> Call:
    return Call(OpKind.BARRIER)


def send(to: int, count: int = 4, tag: int = 0) -> Call:
    return call(OpKind.SEND_RECV, count, peer=to, tag=tag, sends=True)


def recv(source: int = -1, count: int = 4, tag: int = 0) -> Call:
    return call(OpKind.SEND_RECV, count, peer=source, tag=tag)


def bytes_of(rank: int, handle: int, nbytes: int = 16) -> Ref:
    return Ref(f"rank{rank}", handle * 4096, nbytes)


def launched(rank: int) -> Launched:
    return Launched(rank=rank, pid=1000 + rank)


def joined(rank: int, ranks: Sequence[int], group: str = "default", backend: str = "gloo") -> Joined:
    return Joined(rank=rank, group=group, ranks=tuple(ranks), backend=backend)


def posted(
    rank: int,
    handle: int,
    of: Call | None = None,
    group: str = "default",
    payload: Ref | None = None,
    site: str = "",
    staged: bool = True,
    main: bool = True,
    compute: int = 0,
) -> Posted:
    return Posted(
        rank=rank, group=group, handle=handle, call=of or barrier(), payload=payload, site=site, staged=staged,
        main=main, compute=compute,
    )  # fmt: skip


def waited(rank: int, *handles: int, blocks: bool = True, site: str = "", compute: int = 0) -> Waited:
    return Waited(rank=rank, handles=handles, blocks=blocks, site=site, compute=compute)


def asked(
    rank: int,
    action: str,
    *keys: str,
    number: int = 1,
    main: bool = True,
    value: bytes = b"",
    amount: int = 0,
    site: str = "",
    store: str = "",
) -> Asked:
    request = StoreCall(action, keys, value, amount=amount, store=store)
    return Asked(rank=rank, request=request, number=number, main=main, site=site)


class Stage:
    """A world that captures; its clock moves by `pass_time` alone, and what it says is given without causes."""

    def __init__(
        self,
        size: int,
        slots: int = 0,
        hang_after: int = 60 * SECOND,
        kept: Kept = EVERYTHING,
        memory: HostMemory = UNBOUNDED,
    ) -> None:
        self.size = size
        self.exchange = Capture(range(size), kept)
        self.world = World(range(size), slots or size, self.exchange, hang_after, memory=memory)
        self.first = _plain(self.world.start())
        self.now = 0

    def hear(self, *events: AnyEvent) -> list[AnyInstruction]:
        """All that the world says to these events."""
        told: list[AnyInstruction] = []
        for event in events:
            stamp(event, self.now)
            told += self.world.handle(event)
        return _plain(told)

    def up(self, *ranks: int) -> list[AnyInstruction]:
        """These ranks have started (left out: all), and have made the default group."""
        return self.hear(
            *(event for r in ranks or range(self.size) for event in (launched(r), joined(r, range(self.size))))
        )

    def pass_time(self, ns: int) -> list[AnyInstruction]:
        """So much time goes by in which nothing else happens."""
        self.now += ns
        return self.hear(Ticked(rank=-1))

    def states(self) -> list[str]:
        """The state of each rank."""
        return [rank.state.value for rank in self.world.ranks.values()]


def on_stage(size: int, hang_after: int = 60 * SECOND, kept: Kept = EVERYTHING) -> Stage:
    """A stage with a slot for each rank, all of them running."""
    stage = Stage(size, hang_after=hang_after, kept=kept)
    stage.up()
    return stage


def reduced(stage: Stage, *ranks: int) -> list[AnyInstruction]:
    """These ranks post an all_reduce as their first operation, one after the other."""
    return stage.hear(*(posted(rank, 1, all_reduce(), payload=bytes_of(rank, 1)) for rank in ranks))


def blocked(
    stage: Stage, rank: int, handle: int, of: Call | None = None, group: str = "default", line: int = 1
) -> list[AnyInstruction]:
    """The rank posts an operation and waits for it, at `train.py:line`."""
    site = f"train.py:{line}"
    return stage.hear(posted(rank, handle, of, group, site=site), waited(rank, handle, site=site))


def make_groups(stage: Stage, *groups: tuple[str, tuple[int, ...]]) -> None:
    """Groups beside the default one, made by all their members."""
    stage.hear(*(joined(rank, ranks, name) for name, ranks in groups for rank in ranks))


def diagnosis(stage: Stage) -> Diagnosis:
    """The verdict on a run that was given up."""
    assert stage.world.diagnosis is not None, "the run goes on"
    return stage.world.diagnosis


def _plain(instructions: Sequence[AnyInstruction]) -> list[AnyInstruction]:
    return [msgspec.structs.replace(instruction, cause=0) for instruction in instructions]
