"""Two hosts, each with a directory of its own, and a bridge between them for every FIFO that both share."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import torch

from prism.core.graph import OpKind

pytest.importorskip("prism.gpu.pruned", exc_type=ImportError)
from prism.gpu.pruned import Aborted, Arc, Branches, Contribution, Member, Op, PeerLost, Pipe, abort
from prism.gpu.pruned.bridge import Edge, Link, Party, answer, carry, dial
from tests.nccl.cast import address, together

TOKEN = b"a secret of this run"


@contextmanager
def bridged(source: Path, target: Path, *links: Link) -> Iterator[None]:
    """Bridges for these FIFOs from one host's directory to the other's."""
    stop = threading.Event()
    threads = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        for link in links:
            out = dial(server.getsockname()[:2], TOKEN, link)
            accepted, _ = server.accept()
            arrived = answer(accepted, TOKEN)
            assert arrived == link
            threads.append(threading.Thread(target=carry, args=(source, link, out, True, stop)))
            threads.append(threading.Thread(target=carry, args=(target, arrived, accepted, False)))
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()  # the outward side hangs up, and with that the inward side is done
        for thread in threads:
            thread.join()


@pytest.fixture
def hosts(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    return tmp_path / "here", tmp_path / "there"


def test_a_collective_across_hosts(hosts: tuple[Path, Path]) -> None:
    here, there = hosts
    count = 3_000_001  # several loops of chunks, several slices each
    mine = [torch.arange(count, dtype=torch.float32) % 1000 / 7, torch.arange(count, dtype=torch.float32) % 77]
    op, sandbox = Op(OpKind.ALL_REDUCE, 3, "float32", "sum", count=count), (0, 1)
    rest = torch.ones(count)
    expected = [row.clone() for row in mine]
    with (  # member 0 and the arc behind member 1 are here, member 1 is there
        bridged(here, there, Link("g", Party("member", 0), Party("member", 1))),
        bridged(there, here, Link("g", Party("member", 1), Party("arc", 1))),
        Member(here, "g", 3, sandbox, 0) as a,
        Member(there, "g", 3, sandbox, 1) as b,
        Arc(here, "g", 3, sandbox, 1) as arc,
    ):
        together(
            here,
            lambda: a.run(op, address(mine[0]), address(mine[0])) and None,
            lambda: b.run(op, address(mine[1]), address(mine[1])) and None,
            lambda: arc.run(op, Contribution.left(address(rest), 0)) and None,
        )
    assert torch.equal(mine[0], mine[1])
    torch.testing.assert_close(mine[0], expected[0] + expected[1] + rest)


def test_trees_across_hosts(hosts: tuple[Path, Path]) -> None:
    here, there = hosts
    count = 1_000_003  # several chunks
    mine = [torch.arange(count, dtype=torch.int64) % 1000, torch.arange(count, dtype=torch.int64) % 77]
    op, sandbox = Op(OpKind.ALL_REDUCE, 3, "int64", "sum", count=count, tree=True), (0, 1)
    rest = torch.ones(count, dtype=torch.int64)
    expected = mine[0] + mine[1] + rest
    # The trees are 0 - 2 - 1 and 1 - 0 - 2; member 1 is there, and all that is virtual hangs below member 0.
    one, zero, kept = Party("member", 1), Party("member", 0), Party("branches", 0)
    with (
        bridged(here, there, Link("g", kept, one, Edge(0, 1, False)), Link("g", zero, one, Edge(1, 0, True))),
        bridged(there, here, Link("g", one, kept, Edge(0, 1, True)), Link("g", one, zero, Edge(1, 0, False))),
        Member(here, "g", 3, sandbox, 0) as a,
        Member(there, "g", 3, sandbox, 1) as b,
        Branches(here, "g", 3, sandbox, 0) as branches,
    ):
        together(
            here,
            lambda: a.run(op, address(mine[0]), address(mine[0])) and None,
            lambda: b.run(op, address(mine[1]), address(mine[1])) and None,
            lambda: branches.run(op, Contribution.left(address(rest), 0)) and None,
        )
    assert torch.equal(mine[0], expected)
    assert torch.equal(mine[1], expected)


def test_messages_across_hosts(hosts: tuple[Path, Path]) -> None:
    sizes = (0, 5, 7 * 2**20 + 1)
    sent = [torch.randint(0, 255, (size,), dtype=torch.uint8) for size in sizes]
    got = [torch.zeros_like(message) for message in sent]
    with bridged(*hosts, Link("p")), Pipe(hosts[0], "p") as a, Pipe(hosts[1], "p") as b:

        def send() -> None:
            for message in sent:
                a.send(address(message), len(message))

        def receive() -> None:
            for message in got:
                b.recv(address(message), len(message))

        together(hosts[0], send, receive)
    assert all(torch.equal(*pair) for pair in zip(sent, got, strict=True))


def test_who_does_not_know_the_token_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        dialled = dial(server.getsockname()[:2], b"another", Link("p"))
        accepted, _ = server.accept()
        with dialled, accepted, pytest.raises(PermissionError, match="token"):
            answer(accepted, TOKEN)


@pytest.mark.parametrize(
    ("said", "why"),
    [(b"", "hung up"), (b"GET / HTTP/1.1", "does not speak"), ((3).to_bytes(4) + b"abc", "does not speak")],
)
def test_who_does_not_speak_as_a_bridge_is_refused(said: bytes, why: str) -> None:
    stranger, accepted = socket.socketpair()
    with accepted, stranger:
        stranger.sendall(said)
        stranger.shutdown(socket.SHUT_WR)
        with pytest.raises(PermissionError, match=why):
            answer(accepted, TOKEN)


def test_a_connection_that_breaks_within_a_slice(hosts: tuple[Path, Path]) -> None:
    out, accepted = socket.socketpair()
    out.sendall((100).to_bytes(4, "little") + (0).to_bytes(12) + b"half")
    out.close()
    with pytest.raises(PeerLost, match="within a slice"):
        carry_pair(hosts[1], accepted)


def test_an_abort_ends_a_bridge(hosts: tuple[Path, Path]) -> None:
    out, accepted = socket.socketpair()

    def carried() -> None:
        with pytest.raises(Aborted):
            carry_pair(hosts[1], accepted)

    together(hosts[1], carried, partial(abort, hosts[1]))
    out.close()


def carry_pair(directory: Path, accepted: socket.socket) -> None:
    """Carry what comes on one end of a pair of sockets."""
    carry(directory, Link("p"), accepted, outwards=False)
