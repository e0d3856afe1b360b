"""When an arc sends: the closed form against the recursion over all its members, and nothing before its time."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from prism.core.graph import OpKind

pytest.importorskip("prism.gpu.pruned", exc_type=ImportError)
from prism.gpu.pruned import Arc, Contribution, Op, Pace, Peers, Pipe, arcs
from prism.gpu.pruned.plans import release_times
from tests.nccl.cast import Cast, at_once, together

FULL = 512 * 1024  # float32 elements of a full chunk
MS = 1_000_000

RINGS = (OpKind.ALL_REDUCE, OpKind.REDUCE_SCATTER, OpKind.ALL_GATHER)


def chunk_weights(op: Op) -> list[int]:
    """Elements of a chunk in each loop, of ops whose blocks are even."""
    per_member = op.count // op.size if op.kind is not OpKind.ALL_GATHER else op.count
    return [FULL] * (per_member // FULL) + ([per_member % FULL] if per_member % FULL else [])


def ring_recursion(op: Op, posts: list[int], stamps: list[int], alpha: int, taus: list[int]) -> list[int]:
    """When the member after the arc has each send: t(g) = max(t(g - 1), left's t(g - 1) + alpha) + tau(g)."""
    left, done = [], 0
    for stamp, tau in zip(stamps, taus, strict=True):
        done = max(done, stamp) + tau
        left.append(done)
    for post in posts:
        mine = [post + taus[0]]
        for step in range(1, len(taus)):
            mine.append(max(mine[-1], left[step - 1] + alpha) + taus[step])
        left = mine
    return [end + alpha for end in left]


def chain_recursion(posts: list[int], stamps: list[int] | None, alpha: int, tau: int, steps: int) -> list[int]:
    """The same of a chain; without stamps the arc's first member is the chain's."""
    left = None
    if stamps is not None:
        left, done = [], 0
        for stamp in stamps:
            done = max(done, stamp) + tau
            left.append(done)
    for post in posts:
        mine, at = [], post
        for step in range(steps):
            at = max(at, left[step] + alpha if left else 0) + tau
            mine.append(at)
        left = mine
    assert left is not None
    return [end + alpha for end in left]


times = st.integers(0, 10**7)


def exactly(count: int) -> st.SearchStrategy[list[int]]:
    """So many times."""
    return st.lists(times, min_size=count, max_size=count)


@st.composite
def placed(draw: st.DrawFn) -> tuple[int, tuple[int, ...], int]:
    """A group's size, its sandbox, and a sandbox member that has an arc behind it."""
    size = draw(st.integers(2, 9))
    sandbox = tuple(sorted(draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=size - 1))))
    return size, sandbox, draw(st.sampled_from(sorted(arcs(size, sandbox))))


@settings(max_examples=200)
@given(data=st.data(), place=placed(), kind=st.sampled_from(RINGS), loops=st.integers(0, 2), rest=st.integers(0, 5))
def test_rings_release_when_the_recursion_over_all_members_does(
    data: st.DataObject, place: tuple[int, tuple[int, ...], int], kind: OpKind, loops: int, rest: int
) -> None:
    size, sandbox, after = place
    each = loops * FULL + 4 * rest
    op = Op(kind, size, "float32", "sum", count=each if kind is OpKind.ALL_GATHER else each * size)
    per_loop = 2 * (size - 1) if kind is OpKind.ALL_REDUCE else size - 1
    alpha, unit = data.draw(st.integers(0, 10**5)), data.draw(st.integers(0, 3))
    taus = [unit * weight for weight in chunk_weights(op) for _ in range(per_loop)]
    posts = data.draw(exactly(len(arcs(size, sandbox)[after])))
    stamps = sorted(data.draw(exactly(len(taus))))
    pace = Pace(np.array(posts), latency=alpha * len(taus), transfer=sum(taus))
    found = release_times(op, sandbox, after, pace, np.array(stamps, np.int64))
    assert found.tolist() == (ring_recursion(op, posts, stamps, alpha, taus) if taus else [])


@settings(max_examples=200)
@given(data=st.data(), place=placed(), kind=st.sampled_from([OpKind.BROADCAST, OpKind.REDUCE]), steps=st.integers(1, 4))
def test_chains_release_when_the_recursion_does(
    data: st.DataObject, place: tuple[int, tuple[int, ...], int], kind: OpKind, steps: int
) -> None:
    size, sandbox, after = place
    root, members = data.draw(st.integers(0, size - 1)), arcs(size, sandbox)[after]
    start = root if kind is OpKind.BROADCAST else (root + 1) % size
    op = Op(kind, size, "float32", "sum", root, count=steps * FULL // 4)
    alpha, tau = data.draw(st.integers(0, 10**5)), data.draw(st.integers(0, 10**5))
    posts = data.draw(exactly(len(members)))
    stamps = sorted(data.draw(exactly(steps)))
    pace = Pace(np.array(posts), latency=alpha * (size - 1), transfer=tau * (size - 2 + steps))
    found = release_times(op, sandbox, after, pace, np.array(stamps, np.int64))
    if start == (members[-1] + 1) % size:
        assert found.tolist() == []  # the chain begins behind the arc
    elif start in members:
        senders = posts[members.index(start) :]
        assert found.tolist() == chain_recursion(senders, None, alpha, tau, steps)
    else:
        assert found.tolist() == chain_recursion(posts, stamps, alpha, tau, steps)


@given(
    kind=st.sampled_from(RINGS),
    size=st.integers(2, 8),
    each=st.integers(1, 10),
    latency=times,
    transfer=times,
    post=times,
)
def test_with_equal_posts_an_op_ends_at_its_cost(
    kind: OpKind, size: int, each: int, latency: int, transfer: int, post: int
) -> None:
    op = Op(kind, size, "float32", "sum", count=4 * each * (1 if kind is OpKind.ALL_GATHER else size))
    pace = at_once(range(size - 1), latency, transfer, post)
    steps = 2 * (size - 1) if kind is OpKind.ALL_REDUCE else size - 1
    handed_over = np.full(steps, post)
    for step in range(steps):  # the sandbox member sends on at once
        ends = release_times(op, (0,), 0, pace, handed_over)
        handed_over[step + 1 :] = ends[step]
    assert ends[-1] == pytest.approx(post + latency + transfer, abs=steps)  # roundings


@pytest.mark.parametrize("kind", [kind for kind in OpKind if kind is not OpKind.SEND_RECV])
def test_no_op_is_over_before_its_time(tmp_path: Path, kind: OpKind) -> None:
    size, root = 5, 2
    cast = Cast(tmp_path, size, (1, 2))
    op = Op(kind, size, "float32", "sum", root, count=0 if kind is OpKind.BARRIER else 20)
    op = Op(kind, size, "float32", "sum", 4 if kind in (OpKind.BROADCAST, OpKind.SCATTER) else root, count=op.count)
    tensors = {rank: torch.ones(100) for rank in (1, 2)}
    post = time.monotonic_ns() + 20 * MS
    cast.run(op, tensors, {r: torch.ones(100) for r in (1, 2)}, pace=lambda who: at_once(who, 3 * MS, 4 * MS, post))
    assert time.monotonic_ns() >= post + (0 if kind is OpKind.REDUCE else 2 * MS)


def test_a_message_is_not_there_before_its_time(tmp_path: Path) -> None:
    start = time.monotonic_ns() + 10 * MS
    with Pipe(tmp_path, "p") as a, Pipe(tmp_path, "p") as b:
        together(tmp_path, lambda: a.send(0, 3 * 2**20, start, 5 * MS), lambda: b.recv(0, 3 * 2**20))
    assert time.monotonic_ns() >= start + 5 * MS


def test_a_post_for_each_member(tmp_path: Path) -> None:
    op = Op(OpKind.ALL_REDUCE, 4, "float32", "sum", count=16)
    with pytest.raises(ValueError, match="2 posts for 3 members"):
        release_times(op, (0,), 0, at_once((1, 2)), np.zeros(6, np.int64))
    with Arc(tmp_path, "g", 4, (0,), 0) as arc, pytest.raises(ValueError, match="0 posts for 3 members"):
        arc.run(Op(OpKind.BARRIER, 4), Contribution.zeros(), at_once(()))
    with Peers(tmp_path, "g", 4, (0,), 0) as peers, pytest.raises(ValueError, match="3 posts for 4 members"):
        peers.run(Op(OpKind.ALL_TO_ALL, 4, "int8", count=4), 0, at_once((1, 2, 3)))
