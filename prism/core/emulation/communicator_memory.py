"""The device memory that NCCL's own communicator of N ranks takes: an estimate, by the rules of NCCL 2.28.

NCCL takes memory in units of 2 MiB, when it is first needed (`NCCL_RUNTIME_CONNECT`, the default):

- when the communicator is made, for each channel three tables of the members: their connections, where those are, and
  the ring's order;
- with the first collective, for each channel a connection from the rank before in the ring and one to the rank behind.
  A receiving end has the buffers of the three protocols, a sending one a page of counters; towards another node it has
  buffers too, from which the network card reads;
- with the first message to or from a rank, the same on each channel of a peer; with ranks of other nodes all messages
  share one buffer each way.

How many channels there are NCCL finds out from the machine. What is assumed here is what it takes on nodes of Hopper
GPUs behind NVSwitches, over several nodes with a network card for each GPU. Trees, NVLS and CollNet have buffers of
their own, which are not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from prism.core.calls import Call
from prism.core.graph import OpKind
from prism.core.record import PostStep

UNIT = 2 << 20
"""Of cuMemCreate, and of memory that other processes open."""
PAGE = 4096
LL, LL128, SIMPLE = 8 * 512 * 8 * 16, 120 * 640 * 8 * 8, 4 << 20
"""Buffers of the protocols: for each of 8 slots, so many lines of so many threads; NCCL_BUFFSIZE."""
CONNECTION = 608
"""What a kernel has to know of a member, both ways and for collectives and messages."""
SHARED_SLOTS = 16


class Channels(NamedTuple):
    """How many NCCL takes for collectives, for messages, and for those with one peer; bytes of a message's slice."""

    collective: int
    messages: int
    per_peer: int
    slice: int


ON_ONE_NODE = Channels(24, 32, 32, 512 << 10)
ON_SEVERAL = Channels(16, 16, 2, 128 << 10)


class Uses(NamedTuple):
    """What a rank does in a group: whether it takes part in rings, its peers in exchanges and batches, and in others.

    Of messages that are in no batch torch makes a communicator of two for each peer.
    """

    rings: bool
    peers: frozenset[int]
    alone: frozenset[int]


def uses(steps: Iterable[PostStep], member: int, size: int) -> Uses:
    """What a member's posts on a group of `size` come to."""
    rings, peers, alone = False, set[int](), set[int]()
    for step in steps:
        if step.call.kind is OpKind.SEND_RECV:
            (peers if step.batch else alone).add(step.call.peer if step.call.peer >= 0 else step.source)
        elif step.call.kind in (OpKind.ALL_TO_ALL, OpKind.GATHER, OpKind.SCATTER):
            peers.update(_partners(step.call, member, size))
        else:
            rings = True
    return Uses(rings, frozenset(peers - {member}), frozenset(alone - {member}))


def communicator_bytes(nodes: Sequence[int], member: int, uses: Uses, channels: Channels | None = None) -> int:
    """Bytes of device memory that a member's communicators of a group take; `nodes`: the node of each member."""
    taken = 0
    if uses.rings or uses.peers:
        chosen = channels or (ON_ONE_NODE if len(set(nodes)) == 1 else ON_SEVERAL)
        here = nodes.count(nodes[member])
        taken += made(len(nodes), chosen)
        taken += ring(here, here < len(nodes), chosen) if uses.rings else 0
        taken += messages([nodes[peer] == nodes[member] for peer in uses.peers], chosen)
    for peer in sorted(uses.alone):
        two = [nodes[member], nodes[peer]]
        taken += communicator_bytes(two, 0, Uses(False, frozenset({1}), frozenset()), channels)
    return taken


def made(size: int, channels: Channels) -> int:
    """What making a communicator of `size` members takes."""
    tables = _units(size * CONNECTION) + _units((size + 1) * 8) + _units(size * 4)
    return max(channels.collective, channels.messages) * tables


def ring(here: int, leaves: bool, channels: Channels) -> int:
    """What a ring takes, `here` of whose members are on the rank's node; `leaves`: there are other nodes."""
    receiving = _units(PAGE + LL + LL128 + SIMPLE)
    away = -(-channels.collective // here) if leaves else 0  # the channels of which this rank is the last on its node
    return channels.collective * receiving + (channels.collective - away) * _units(PAGE) + away * _units(LL128 + SIMPLE)


def messages(here: Sequence[bool], channels: Channels) -> int:
    """What messages with peers take, each of which is on the rank's node or not."""
    both = _units(PAGE + LL + LL128 + SIMPLE) + _units(PAGE)
    shared = 2 * _units(channels.messages * SHARED_SLOTS * channels.slice)
    return sum(here) * channels.per_peer * both + (0 if all(here) else shared)


def _partners(call: Call, member: int, size: int) -> Iterable[int]:
    """With whom a member exchanges something."""
    if call.kind is OpKind.ALL_TO_ALL:
        even = [call.count // size] * size
        both = zip(call.send or even, call.recv or even, strict=True)
        return [peer for peer, counts in enumerate(both) if any(counts)]
    return range(size) if member == call.root else (call.root,)


def _units(nbytes: int) -> int:
    return -(-nbytes // UNIT) * UNIT
