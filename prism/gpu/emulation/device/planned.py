"""What a sandbox rank's device will be asked to do: the calls of NCCL that its record comes to, in program order.

Torch makes of some operations other calls: of a barrier a sum of one number, of uneven gathers a broadcast for each
member, of exchanges in pairs a message for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from prism.core.calls import Call, Ref
from prism.core.graph import ITEMSIZE, OpKind
from prism.core.record import PostStep
from prism.gpu.emulation.engine_calls import PAIRWISE, group_name, message_bytes
from prism.gpu.emulation.virtual import VirtualRanks
from prism.net.passing import OVERFLOW
from prism.net.schedule import GroupPart, Schedule

CARRIED_AS = {"bool": ("uint8", 1), "complex64": ("float32", 2), "complex128": ("float64", 2)}
"""Types that torch carries as so many numbers of another."""


class Part(NamedTuple):
    """A payload: bytes of a file."""

    path: str
    offset: int
    nbytes: int


class Partner(NamedTuple):
    """A message to or from a member, by its group rank; `payload`: what a virtual one sends, None for zeros."""

    peer: int
    sends: bool
    nbytes: int
    payload: Part | None = None


@dataclass(frozen=True)
class Planned:
    """One call of NCCL; counts are those of prism.gpu.pruned.Op, costs are ns, `op` is the touching operation.

    `shown`: whether the board shows this call in the place of the operation, which may come to several. `uneven`: it is
    one block of a collective of uneven blocks.
    """

    group: str
    op: int
    step: PostStep
    kind: OpKind
    dtype: str
    latency: int
    transfer: int
    count: int = 0
    reduce: str = "none"
    root: int = -1
    head: Part | None = None
    tail: Part | None = None
    final: Part | None = None
    partners: tuple[Partner, ...] = ()
    shown: bool = True
    uneven: bool = False


def on_device(schedule: Schedule, op: int) -> GroupPart | None:
    """The group of a touching operation that a device carries out beside virtual members; None for any other."""
    group = schedule.plain.groups[int(schedule.ops.group[op])]
    return group if group.on_device and len(group.sandbox) < group.size else None


class Plan:
    """The calls of one sandbox rank; the number of each among them is its entry in the releases."""

    def __init__(self, schedule: Schedule, rank: int, payloads: Path) -> None:
        self._schedule = schedule
        self._payloads = payloads
        self._paths: dict[str, str] = {}  # of files
        self.virtual = VirtualRanks(schedule, rank, payloads)
        self.calls: list[Planned] = []
        self.entries: dict[int, range] = {}  # of each operation that comes to calls
        part = next(part for part in schedule.plain.parts if part.rank == rank)
        for op, step in zip(part.ops, part.steps, strict=True):
            if op >= 0 and (group := on_device(schedule, op)) is not None:
                first = len(self.calls)
                self.calls += self._of(op, step, group)
                self.entries[op] = range(first, len(self.calls))

    def member(self, op: int) -> int:
        """The rank in its group that the sandbox rank has in a collective."""
        return self.virtual.member(op)

    def _of(self, op: int, step: PostStep, group: GroupPart) -> list[Planned]:
        ops = self._schedule.ops
        named, latency, transfer = group_name(self._schedule, op), int(ops.latency[op]), int(ops.transfer[op])
        whole = Planned(named, op, step, step.call.kind, step.call.dtype, latency, transfer)
        if step.call.kind is OpKind.SEND_RECV:
            found = self._message(whole)
        elif step.call.kind in PAIRWISE:
            found = self._pairs(whole, group.size)
        elif step.call.kind is OpKind.BARRIER:
            found = [replace(whole, kind=OpKind.ALL_REDUCE, dtype="float32", reduce="sum", count=1)]
        elif not _even(step.call):
            found = self._one_by_one(whole)
        else:
            found = self._collective(whole)
        return [_as_carried(one) for one in found if one.count or one.partners]

    def _collective(self, whole: Planned) -> list[Planned]:
        call = whole.step.call
        parts = {need.part: self._part(ref) for need, ref in self.virtual.payloads(whole.op).items()}
        head = parts.get("before") or parts.get("rest")
        return [
            replace(
                whole, count=call.count, reduce=call.reduce, root=call.root, head=head, tail=parts.get("after"),
                final=parts.get("result"),
            )
        ]  # fmt: skip

    def _one_by_one(self, whole: Planned) -> list[Planned]:
        """An uneven all_gather as broadcasts, an uneven reduce_scatter as reductions, one for each member."""
        call, member = whole.step.call, self.member(whole.op)
        gathers = call.kind is OpKind.ALL_GATHER
        counts = call.recv if gathers else call.send
        parts = self.virtual.payloads(whole.op)
        found, at = [], 0
        for root, count in enumerate(counts):
            one = replace(
                whole, kind=OpKind.BROADCAST if gathers else OpKind.REDUCE, count=count, root=root, reduce=call.reduce,
                latency=whole.latency // len(counts), transfer=whole.transfer // len(counts),
                shown=not any(counts[:root]),  # the first one that NCCL is called for
                uneven=True,
            )  # fmt: skip
            size = count * ITEMSIZE[call.dtype]
            for need, ref in parts.items():
                if gathers and root != member and size:
                    one = replace(one, final=self._part(ref.part(at, size)))
                elif root == member and need.part in ("before", "rest"):
                    one = replace(one, head=self._part(ref))
            found.append(one)
            at += size
        return found

    def _message(self, whole: Planned) -> list[Planned]:
        call = whole.step.call
        size = message_bytes(whole.step, int(self._schedule.ops.nbytes[whole.op]))
        payload = next((self._part(ref) for ref in self.virtual.payloads(whole.op).values()), None)
        peer = call.peer if call.peer >= 0 else whole.step.source
        return [replace(whole, partners=(Partner(peer, call.sends, size, payload),))] if size else []

    def _pairs(self, whole: Planned, size: int) -> list[Planned]:
        call, member = whole.step.call, self.member(whole.op)
        result = next(iter(self.virtual.payloads(whole.op).values()), None)
        sent, received = exchanged(call, size, member)
        item = ITEMSIZE[call.dtype]
        partners = [Partner(peer, True, count * item) for peer, count in sent.items() if peer != member and count]
        partners += self._received(received, member, item, result)
        count = call.count // size if call.kind is OpKind.SCATTER and call.root == member else call.count
        return [replace(whole, count=count, root=call.root, partners=tuple(partners))] if partners else []

    def _received(self, counts: Mapping[int, int], member: int, item: int, result: Ref | None) -> Iterator[Partner]:
        at = 0
        for peer, count in counts.items():
            nbytes = count * item
            if peer != member and nbytes:
                yield Partner(peer, False, nbytes, None if result is None else self._part(result.part(at, nbytes)))
            at += nbytes

    def _part(self, ref: Ref) -> Part:
        if ref.file not in self._paths:
            over = self._payloads / OVERFLOW / ref.file
            self._paths[ref.file] = str(over if over.is_file() else self._payloads / ref.file)
        return Part(self._paths[ref.file], ref.offset, ref.nbytes)


def exchanged(call: Call, size: int, member: int) -> tuple[dict[int, int], dict[int, int]]:
    """How many elements a member sends to each other, and gets from each, in an exchange in pairs; ascending."""
    if call.kind is OpKind.ALL_TO_ALL:
        even = [call.count // size] * size
        return dict(enumerate(call.send or even)), dict(enumerate(call.recv or even))
    at_root = member == call.root
    blocks = _blocks(call, size) if at_root else [call.count]
    those = dict(enumerate(blocks)) if at_root else {call.root: blocks[0]}
    gets = at_root == (call.kind is OpKind.GATHER)
    return ({}, those) if gets else (those, {})


def _blocks(call: Call, size: int) -> Sequence[int]:
    """What the root of a gather gets from each member, or that of a scatter gives to each."""
    if call.kind is OpKind.GATHER:
        return call.recv or [call.count] * size
    return [call.count // size] * size


def _even(call: Call) -> bool:
    """Whether all blocks of a collective are equal, as NCCL has them."""
    blocks = call.send if call.kind is OpKind.REDUCE_SCATTER else call.recv
    return len(frozenset(blocks)) < 2


def _as_carried(planned: Planned) -> Planned:
    """As torch hands it to NCCL, which has fewer types; a sum of truth values is their maximum."""
    dtype, numbers = CARRIED_AS.get(planned.dtype, (planned.dtype, 1))
    reduce = "max" if (planned.dtype, planned.reduce) == ("bool", "sum") else planned.reduce
    return replace(planned, dtype=dtype, count=planned.count * numbers, reduce=reduce)
