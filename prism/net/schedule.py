"""The schedule of an emulation: what sandbox ranks and assistants must know; the coordinator writes it.

It is about the touching operations alone (prism.core.emulation), so its size follows the sandbox, not the world.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from prism.atomic import write_private
from prism.core.emulation.summary import Summary
from prism.core.emulation.touching import Touching
from prism.core.graph import Int64
from prism.core.record import PostStep
from prism.net.columns import load_columns, save_columns

SCHEDULE, BOARD, FIFOS = "schedule", "board", "fifos"
"""What lies in the directory that the processes of an emulation share."""


def releases_of(rank: int) -> str:
    """The name of the file in which the assistant of a sandbox rank tells its device of posts."""
    return f"releases-{rank}"


class SandboxPart(msgspec.Struct, array_like=True):
    """One sandbox rank: its posts in the record's order, and the touching number of each (-1: it never completes)."""

    rank: int
    ops: list[int]
    steps: list[PostStep]


class GroupPart(msgspec.Struct, array_like=True):
    """One group that exists: how many members it has, and which of them, by group rank, are sandbox ranks.

    `nodes`: the node of each member, where an operation of the group runs along trees. `ranks`: the global ranks of the
    sandbox members. `on_device`: its tensors lie on GPUs; then `communicator_bytes` is what NCCL's own communicators of
    it would take of the memory of each of those.
    """

    size: int
    sandbox: list[int]
    nodes: list[int] = []
    name: str = ""
    ranks: list[int] = []
    on_device: bool = False
    communicator_bytes: list[int] = []

    def reserved(self, rank: int) -> int:
        """The bytes that a rank's device holds for those; 0 where it holds none."""
        return dict(zip(self.ranks, self.communicator_bytes, strict=False)).get(rank, 0)


class Plain(msgspec.Struct, array_like=True):
    """What is not columnar: groups by their row in the graph, sandbox ranks ascending."""

    contribution: str
    groups: dict[int, GroupPart]
    parts: list[SandboxPart]

    def reserved(self, rank: int) -> int | None:
        """The same for all groups; None without devices."""
        on_device = any(group.on_device for group in self.groups.values())
        return sum(group.reserved(rank) for group in self.groups.values()) if on_device else None


@dataclass(frozen=True, slots=True)
class OpColumns:
    """One row a touching op: its group, the global ranks at both ends of a message (-1: a collective), and its cost."""

    group: Int64
    sender: Int64
    receiver: Int64
    tag: Int64
    nbytes: Int64
    latency: Int64  # ns, all steps together
    transfer: Int64  # ns
    tree: Int64  # 1: it runs along two trees


@dataclass(frozen=True, slots=True)
class Schedule:
    """All of it; costs are int64[ops of the graph] ns, as the clock wants them."""

    plain: Plain
    ops: OpColumns
    touching: Touching
    summary: Summary
    costs: Int64

    def save(self, directory: Path) -> None:
        """Write it into a directory that does not exist yet."""
        directory.mkdir(mode=0o700)
        write_private(directory / "plain.msgpack", msgspec.msgpack.encode(self.plain))
        save_columns(directory / "ops", self.ops)
        save_columns(directory / "touching", self.touching)
        save_columns(directory / "summary", self.summary)
        save_columns(directory / "costs", _Costs(self.costs))

    @classmethod
    def load(cls, directory: Path) -> Schedule:
        """Read it; columns are mapped."""
        return cls(
            plain=msgspec.msgpack.decode((directory / "plain.msgpack").read_bytes(), type=Plain),
            ops=load_columns(directory / "ops", OpColumns),
            touching=load_columns(directory / "touching", Touching),
            summary=load_columns(directory / "summary", Summary),
            costs=load_columns(directory / "costs", _Costs).costs,
        )


@dataclass(frozen=True, slots=True)
class _Costs:
    costs: Int64
