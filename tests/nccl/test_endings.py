"""What ends a wait that will never be over, and who may come first."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from prism.core.graph import OpKind

pytest.importorskip("prism.gpu.pruned", exc_type=ImportError)
from prism.gpu.pruned import Aborted, Arc, Contribution, Member, Mismatch, Op, PeerLost, Pipe, abort
from tests.nccl.cast import address, together

OP = Op(OpKind.ALL_REDUCE, 2, "float32", "sum", count=1000)


def in_child(body: Callable[[], None]) -> int:
    """The body in a process of its own; its process id."""
    child = os.fork()
    if child == 0:
        try:
            body()
        finally:
            os._exit(0)
    return child


class Interrupted(Exception):
    """A signal came."""


@pytest.fixture
def tensor() -> torch.Tensor:
    return torch.ones(1000)


def test_an_abort_ends_what_runs_and_what_comes_later(tmp_path: Path, tensor: torch.Tensor) -> None:
    with Member(tmp_path, "g", 2, (0, 1), 0) as member, Pipe(tmp_path, "p") as pipe:

        def blocked() -> None:
            with pytest.raises(Aborted, match=r"^rank 3 was lost$"):
                member.run(OP, address(tensor), address(tensor))

        together(tmp_path, blocked, lambda: abort(tmp_path, "rank 3 was lost"))
        abort(tmp_path, "rank 4 was lost, as rank 3 was")
        with pytest.raises(Aborted, match=r"^rank 3 was lost$"):
            pipe.send(address(tensor), 4)


def test_an_abort_reaches_other_processes(tmp_path: Path) -> None:
    reading, writing = os.pipe()

    def blocked() -> None:
        with Pipe(tmp_path, "p") as pipe:
            try:
                pipe.recv(0, 10)
            except Aborted as aborted:
                os.write(writing, str(aborted).encode())

    child = in_child(blocked)
    abort(tmp_path, "rank 3 was lost")
    os.waitpid(child, 0)
    os.close(writing)
    assert os.read(reading, 100) == b"rank 3 was lost"
    os.close(reading)


def test_a_signal_handler_runs_while_a_call_blocks(tmp_path: Path) -> None:
    def handler(number: int, frame: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with Pipe(tmp_path, "p") as pipe:
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            with pytest.raises(Interrupted):
                pipe.recv(0, 10)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_partner_that_is_gone_is_told(tmp_path: Path, tensor: torch.Tensor) -> None:
    def leaving() -> None:
        with Member(tmp_path, "g", 2, (0, 1), 1) as member:
            member.run(OP, address(tensor), address(tensor))

    child = in_child(leaving)
    with Member(tmp_path, "g", 2, (0, 1), 0) as member:
        member.run(OP, address(tensor), address(tensor))  # all that it sent is there
        os.waitpid(child, 0)
        with pytest.raises(PeerLost, match=f"process {child}"):
            member.run(OP, address(tensor), address(tensor))


@pytest.mark.parametrize("first", ["member", "arc"])
def test_either_side_may_come_first(tmp_path: Path, tensor: torch.Tensor, first: str) -> None:
    present, result = threading.Event(), torch.zeros(1000)

    def member() -> None:
        if first == "arc":
            present.wait()
        with Member(tmp_path, "g", 2, (0,), 0) as side:
            present.set()
            side.run(OP, address(tensor), address(result))

    def arc() -> None:
        if first == "member":
            present.wait()
        with Arc(tmp_path, "g", 2, (0,), 0) as side:
            present.set()
            side.run(OP, Contribution.left(address(tensor), 0))

    together(tmp_path, member, arc)
    assert torch.equal(result, torch.full((1000,), 2.0))


def test_members_that_do_not_run_the_same_are_told(tmp_path: Path, tensor: torch.Tensor) -> None:
    other = Op(OpKind.ALL_REDUCE, 2, "float32", "sum", count=999)
    with Member(tmp_path, "g", 2, (0, 1), 0) as a, Member(tmp_path, "g", 2, (0, 1), 1) as b, pytest.raises(Mismatch):
        together(
            tmp_path,
            lambda: a.run(OP, address(tensor), address(tensor)) and None,
            lambda: b.run(other, address(tensor), address(tensor)) and None,
        )


def test_fifos_are_used_again_for_many_operations(tmp_path: Path) -> None:
    mine, total = torch.ones(3), torch.zeros(3)
    with Member(tmp_path, "g", 3, (1,), 1) as member, Arc(tmp_path, "g", 3, (1,), 1) as arc:
        op, rest = Op(OpKind.ALL_REDUCE, 3, "float32", "sum", count=3), torch.full((3,), 2.0)

        def members() -> None:
            for _ in range(300):
                member.run(op, address(mine), address(total))
                assert torch.equal(total, torch.full((3,), 3.0))

        def virtual() -> None:
            for _ in range(300):
                arc.run(op, Contribution.left(address(rest), 0))

        together(tmp_path, members, virtual)


def test_an_endpoint_that_is_closed_says_so(tmp_path: Path) -> None:
    pipe = Pipe(tmp_path, "p")
    pipe.close()
    with pytest.raises(ValueError, match="closed"):
        pipe.recv(0, 1)


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot open"):
        Pipe(tmp_path / "nowhere", "p")


def test_a_barrier_waits_for_its_last_member(tmp_path: Path) -> None:
    op, ends, last = Op(OpKind.BARRIER, 3), {}, 0

    def member(rank: int) -> None:
        nonlocal last
        with Member(tmp_path, "g", 3, (0, 1), rank) as side:
            if rank == 1:
                last = time.monotonic_ns()
            side.run(op)
            ends[rank] = time.monotonic_ns()

    def arc() -> None:
        with Arc(tmp_path, "g", 3, (0, 1), 1) as side:
            side.run(op, Contribution.zeros())

    together(tmp_path, lambda: member(0), lambda: member(1), arc)
    assert min(ends.values()) >= last
