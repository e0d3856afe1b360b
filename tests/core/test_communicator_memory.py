"""What NCCL's own communicator takes: figures that NCCL's log and users have told, and how they grow."""

from __future__ import annotations

from prism.core.calls import Call
from prism.core.emulation.communicator_memory import (
    ON_ONE_NODE,
    ON_SEVERAL,
    Uses,
    communicator_bytes,
    made,
    messages,
    ring,
    uses,
)
from prism.core.graph import OpKind
from prism.core.record import PostStep

MIB = 1 << 20
NOBODY: frozenset[int] = frozenset()


def step(kind: OpKind, batch: int = 0, source: int = -1, **call: object) -> PostStep:
    return PostStep("0", 1, Call(kind=kind, dtype="float32", **call), "", source=source, batch=batch)


def test_an_all_to_all_of_eight_gpus_of_a_node_has_the_buffers_that_nccls_log_shows() -> None:
    """10485760 and 2097152 bytes on each of 32 channels of each peer: https://github.com/NVIDIA/nccl/issues/1685."""
    assert messages([True] * 7, ON_ONE_NODE) == 7 * 32 * (10485760 + 2097152)


def test_a_buffer_for_messages_to_other_nodes_is_as_large_as_nccls_log_shows() -> None:
    """64 channels of 16 slices of 512 KiB: https://github.com/NVIDIA/nccl/issues/2363."""
    assert messages([False] * 3, ON_ONE_NODE._replace(messages=64)) == 2 * 536870912


def test_a_ring_has_two_ends_on_each_channel() -> None:
    assert ring(8, False, ON_ONE_NODE) == 24 * (10 + 2) * MIB
    assert ring(1, True, ON_SEVERAL) == 16 * (10 + 10) * MIB
    assert ring(8, True, ON_SEVERAL) == 16 * 10 * MIB + 14 * 2 * MIB + 2 * 10 * MIB


def test_only_the_tables_grow_with_the_members_of_a_ring() -> None:
    assert made(2, ON_ONE_NODE) == made(8, ON_ONE_NODE) == 32 * 3 * 2 * MIB
    assert made(8192, ON_SEVERAL) == 16 * (6 + 2 + 2) * MIB
    rings = Uses(True, NOBODY, NOBODY)
    small, large = (communicator_bytes([rank // 8 for rank in range(size)], 0, rings) for size in (64, 8192))
    assert large - small == 16 * 2 * 2 * MIB


def test_a_group_that_does_nothing_takes_nothing() -> None:
    assert communicator_bytes([0, 0], 0, Uses(False, NOBODY, NOBODY)) == 0


def test_messages_in_no_batch_have_communicators_of_their_own() -> None:
    whole = communicator_bytes([0, 0, 0, 0], 1, Uses(False, NOBODY, frozenset({0, 2})))
    assert whole == 2 * communicator_bytes([0, 0], 0, Uses(False, frozenset({1}), NOBODY))


def test_what_a_rank_does_is_in_its_posts() -> None:
    some = (0, 5, 0, 1)
    steps = [step(OpKind.ALL_TO_ALL, send=some, recv=(0, 0, 0, 2)), step(OpKind.SEND_RECV, peer=2, batch=3)]
    assert uses(steps, 0, 4) == Uses(False, frozenset({1, 2, 3}), NOBODY)
    steps = [step(OpKind.SEND_RECV, peer=-1, source=3), step(OpKind.BROADCAST, root=1), step(OpKind.SCATTER, root=1)]
    assert uses(steps, 0, 4) == Uses(True, frozenset({1}), frozenset({3}))
    assert uses([step(OpKind.GATHER, root=0)], 0, 4) == Uses(False, frozenset({1, 2, 3}), NOBODY)
