"""Two hosts, each with a directory of its own, and a bridge between them for every FIFO that both share."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import torch

from prism.core.graph import OpKind

pytest.importorskip("prism.gpu.pruned", exc_type=ImportError)
from prism.gpu.pruned import Aborted, Arc, Branches, Contribution, Member, Mismatch, Op, PeerLost, Pipe, abort
from prism.gpu.pruned.bridge import Edge, Line, Link, Party, answer, carry, dial
from prism.gpu.pruned.seal import Seal, receive
from tests.nccl.cast import address, together

TOKEN = b"a secret of this run"
KEY = bytes(range(32))


def meeting(
    server: socket.socket, link: Link, dialled: bytes = TOKEN, answered: bytes = TOKEN
) -> tuple[Line, tuple[Link, Line]]:
    """What dial() and answer() give where they meet; raises what answer() raises, else what dial() does."""
    with ThreadPoolExecutor(1) as pool:
        dialling = pool.submit(dial, server.getsockname()[:2], dialled, link)
        accepted, _ = server.accept()
        try:
            met = answer(accepted, answered)
        except PermissionError:
            accepted.close()
            with pytest.raises(OSError, match=r".*"):
                dialling.result()
            raise
        return dialling.result(), met


@contextmanager
def bridged(source: Path, target: Path, *links: Link) -> Iterator[None]:
    """Bridges for these FIFOs from one host's directory to the other's."""
    stop = threading.Event()
    threads = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        for link in links:
            out, (arrived, come) = meeting(server, link)
            assert arrived == link
            assert out.key == come.key
            threads.append(threading.Thread(target=carry, args=(source, link, out, True, stop)))
            threads.append(threading.Thread(target=carry, args=(target, arrived, come, False)))
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
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(PermissionError, match="token"):
        meeting(server, Link("p"), dialled=b"another")


def test_the_token_is_not_said_and_whoever_answers_proves_that_he_knows_it() -> None:
    """Who only listens learns nothing that lets him in, and who stands in for a host is found out."""
    heard = bytearray()

    def pretend() -> None:
        accepted, _ = server.accept()
        with accepted:
            accepted.sendall(bytes(32))
            heard.extend(accepted.recv(1 << 16))
            accepted.sendall(bytes(32))
            heard.extend(accepted.recv(1 << 16))

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=pretend)
        thread.start()
        with pytest.raises(PermissionError, match="who answered does not know the token"):
            dial(server.getsockname()[:2], TOKEN, Link("p"))
        thread.join()
    assert TOKEN not in bytes(heard)


def test_what_was_said_at_one_meeting_opens_no_other() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        meetings = [meeting(server, Link("p")) for _ in range(2)]
    for dialled, (_, answered) in meetings:
        dialled.connection.close()
        answered.connection.close()
    assert len({dialled.key for dialled, _ in meetings}) == 2


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"", "hung up"), (b"GET / HTTP/1.1", "does not speak"), ((3).to_bytes(4) + b"abc", "does not speak"),
        ((1 << 30).to_bytes(4), "does not speak"), ((40).to_bytes(4) + bytes(72), "token"),
    ],
)  # fmt: skip
def test_who_does_not_speak_as_a_bridge_is_refused(said: bytes, why: str) -> None:
    stranger, accepted = socket.socketpair()
    with accepted, stranger:
        stranger.sendall(said)
        stranger.shutdown(socket.SHUT_WR)
        with pytest.raises(PermissionError, match=why):
            answer(accepted, TOKEN)


def slice_of(data: bytes) -> bytes:
    """A slice as a bridge tells it: size, tag and stamp, and the data."""
    return len(data).to_bytes(4, "little") + bytes(12) + data


@pytest.mark.parametrize(
    ("records", "why"),
    [
        ([Seal(KEY).close(slice_of(b"abc"))[:-1]], "within a record"),
        ([Seal(bytes(32)).close(slice_of(b"abc"))], "not sealed by it"),  # another's key
        ([Seal(KEY).close(slice_of(b"abc"))] * 2, "not sealed by it"),  # said twice
        ([Seal(KEY).close(slice_of(b"abc"))[:-1] + b"?"], "not sealed by it"),
        ([Seal(KEY).close(slice_of(b"abc")[:-1])], "no slices"),
        ([Seal(KEY).close(bytes(7))], "no slices"),
        ([(1 << 30).to_bytes(4, "little")], "no records"),
    ],
)
def test_a_stream_that_is_not_the_other_hosts_ends_the_bridge(
    hosts: tuple[Path, Path], records: list[bytes], why: str
) -> None:
    out, accepted = socket.socketpair()
    with out:
        out.sendall(b"".join(records))
        out.shutdown(socket.SHUT_WR)
        with pytest.raises((PeerLost, Mismatch), match=why):
            carry(hosts[1], Link("p"), Line(accepted, KEY), outwards=False)


def test_what_python_seals_the_engine_opens(hosts: tuple[Path, Path]) -> None:
    out, accepted = socket.socketpair()
    got = bytearray(6)
    seal = Seal(KEY)
    tagged = (6).to_bytes(4, "little") * 2 + bytes(8) + b"sealed"  # a message's tag is its size
    out.sendall(seal.close(tagged))
    out.close()
    carry(hosts[1], Link("p"), Line(accepted, KEY), outwards=False)
    with Pipe(hosts[1], "p") as pipe:
        pipe.recv(address(torch.frombuffer(got, dtype=torch.uint8)), 6)
    assert bytes(got) == b"sealed"


def test_a_record_for_python_is_the_next_one_of_who_has_the_key() -> None:
    ours, theirs = socket.socketpair()
    seal, opening = Seal(KEY), Seal(KEY)
    with theirs, ours:
        ours.sendall(seal.close(b"one") + seal.close(b"two") + seal.close(b"four")[:-1])
        ours.shutdown(socket.SHUT_WR)
        assert receive(theirs, opening, 4) == b"one"
        assert receive(theirs, opening, 4) == b"two"
        with pytest.raises(PermissionError, match="within a record"):
            receive(theirs, opening, 4)
        assert receive(theirs, opening, 4) is None


def test_a_record_that_is_too_large_is_not_read() -> None:
    ours, theirs = socket.socketpair()
    with theirs, ours:
        ours.sendall(Seal(KEY).close(b"four"))
        with pytest.raises(PermissionError, match="36 bytes came from the other host, of 35 at most"):
            receive(theirs, Seal(KEY), 3)


def test_an_abort_ends_a_bridge(hosts: tuple[Path, Path]) -> None:
    out, accepted = socket.socketpair()

    def carried() -> None:
        with pytest.raises(Aborted):
            carry(hosts[1], Link("p"), Line(accepted, KEY), outwards=False)

    together(hosts[1], carried, partial(abort, hosts[1], "rank 3 was lost"))
    out.close()
