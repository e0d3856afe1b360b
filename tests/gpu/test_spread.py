"""An emulation on several hosts: which FIFOs cross, what the board tells, and who is let in."""

from __future__ import annotations

import contextlib
import errno
import queue
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

pytest.importorskip("prism.gpu.pruned", exc_type=ImportError)
from prism.core.calls import Call
from prism.core.graph import OpKind
from prism.core.record import PostStep
from prism.crew.spreading import pieces, spread, take_in
from prism.gpu.emulation import door, relay
from prism.gpu.emulation.gateway import BOARD, Gateway, Traffic
from prism.gpu.emulation.links import links
from prism.gpu.pruned.bridge import Line, Link, Party, dial
from prism.gpu.pruned.seal import Seal
from prism.net.board import Board
from prism.net.dealing import most_lanes
from prism.net.messages import Emulating, Laid
from prism.net.schedule import GroupPart, SandboxPart, Schedule


def schedule(sandbox: tuple[int, ...], part: GroupPart, *kinds: OpKind) -> Schedule:
    """One group, in which the sandbox ranks post operations of these kinds; messages go from rank 4 to rank 7."""
    count = len(kinds)
    message = np.array([kind is OpKind.SEND_RECV for kind in kinds])
    ends = {"sender": np.where(message, 4, -1), "receiver": np.where(message, 7, -1), "tag": np.zeros(count, int)}
    ops = SimpleNamespace(group=np.zeros(count, int), **ends)
    steps = [PostStep("g", number, Call(kind), "") for number, kind in enumerate(kinds)]
    posts = [SandboxPart(rank, [*range(count), -1], [*steps, steps[0]]) for rank in sandbox]
    touching, plain = SimpleNamespace(sandbox=sandbox), SimpleNamespace(groups={0: part}, parts=posts)
    return cast(Schedule, SimpleNamespace(touching=touching, plain=plain, ops=ops))


def ends(found: list[Any]) -> dict[tuple[str, str], tuple[int, int]]:
    """The ends of each FIFO of a group, written as m0, a0 and p0, to who plays them."""
    return {(short(link.sender), short(link.receiver)): (sender, receiver) for link, sender, receiver in found}


def short(party: Party) -> str:
    return f"{party.role[0]}{party.rank}"


KEY = bytes(range(32))
ALONE = GroupPart(size=8, sandbox=[2], ranks=[4])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (OpKind.ALL_REDUCE, {("m2", "a2"): (4, -1), ("a2", "m2"): (-1, 4)}),
        (OpKind.ALL_TO_ALL, {("m2", "p2"): (4, -1), ("p2", "m2"): (-1, 4)}),
    ],
)
def test_one_sandbox_rank_meets_its_assistant_only(
    kind: OpKind, expected: dict[tuple[str, str], tuple[int, int]]
) -> None:
    assert ends(links(schedule((4,), ALONE, kind), 1)) == expected


def test_neighbours_meet_each_other_and_an_arc_is_played_by_the_assistant_of_who_follows() -> None:
    part = GroupPart(size=4, sandbox=[0, 1], ranks=[4, 5])
    found = links(schedule((4, 5), part, OpKind.ALL_REDUCE, OpKind.GATHER), 1)
    told = ends(found)
    assert told["m0", "m1"] == (4, 5)
    assert (told["m1", "a1"], told["a1", "m0"]) == ((5, -1), (-1, 4))
    assert ("m0", "a0") not in told
    assert told["m1", "m0"] == (5, 4)  # as partners in pairs
    assert len(found) == len({link for link, _, _ in found})


def test_messages_cross_between_a_sandbox_rank_and_its_own_assistant() -> None:
    ((link, sender, receiver),) = links(schedule((4,), ALONE, OpKind.SEND_RECV), 1)
    assert (link, sender, receiver) == (Link("group0-from4-to7-tag0"), 4, -1)


def test_of_several_assistants_each_carries_its_own_lanes() -> None:
    part = GroupPart(size=4, sandbox=[0, 2], ranks=[4, 6])
    given = schedule((4, 6), part, OpKind.ALL_REDUCE, OpKind.SEND_RECV)
    found = links(given, 2)
    told = ends(found[:-1])
    assert (told["m0", "a0"], told["a0", "m2"]) == ((4, -2), (-2, 6))  # the first assistants of both play the group
    assert (told["m2", "a2"], told["a2", "m0"]) == ((6, -1), (-1, 4))
    assert found[-1] == (Link("group0-from4-to7-tag0"), 4, -3)  # the second of the first, what that rank sends
    assert most_lanes(given) == 2
    assert links(given, 5) == found, "there are no more lanes"


def test_sandbox_ranks_and_assistants_are_on_different_hosts_where_there_are_some() -> None:
    members = {name: SimpleNamespace(gateway=f"{name}:1", host=name) for name in "abc"}
    emulation = Emulating(directory="", sandbox=(1, 3, 5), pool=0)
    one = spread(emulation, cast(Any, members), dict.fromkeys((1, 3, 5), 0))
    assert (one.sandbox, one.assistants) == ({1: "a", 3: "a", 5: "a"}, ("b", "c", "b"))
    two = Emulating(directory="", sandbox=(1, 3), pool=0)
    five = {name: SimpleNamespace(gateway=name, host=name) for name in "abcde"}
    assert spread(two, cast(Any, five), dict.fromkeys((1, 3), 0), 3).assistants == ("b", "c", "d", "e")
    assert spread(two, cast(Any, five), dict.fromkeys((1, 3), 0), 1).assistants == ("b", "c")
    alone = spread(emulation, cast(Any, {"a": members["a"]}), dict.fromkeys((1, 3, 5), 0))
    assert alone.assistants == ("a", "a", "a")


def test_the_board_tells_what_its_host_writes_and_nothing_else(tmp_path: Path) -> None:
    here, there = (Board(tmp_path / name, 2, 3, create=True) for name in ("here", "there"))
    ours, theirs = socket.socketpair()
    stop = threading.Event()
    hearing = threading.Thread(target=relay.hear, args=(there.cells, Line(theirs, KEY)))
    hearing.start()
    here.posted[1, 2], here.posted[0, 0], here.pool[0, 1], here.started[1] = 7, 99, 5, 3
    stop.set()
    relay.tell(here.cells, here.written_by([1], [0]), [Line(ours, KEY)], stop, relay.LOOK_S)
    hearing.join()
    assert (there.posted[1, 2], there.pool[0, 1], there.started[1]) == (7, 5, 3)
    assert there.posted[0, 0] == 0


def test_what_is_shared_is_laid_out_but_the_board_which_is_put_together(tmp_path: Path) -> None:
    room = tmp_path / "room"
    (room / "schedule" / "ops").mkdir(parents=True)
    (room / "schedule" / "ops" / "tag.npy").write_bytes(b"x" * 3)
    Board(room / "board", 1, 2, create=True).posted[0, 0] = 4
    assert list(pieces(room)) == [Laid(), Laid(file="schedule/ops/tag.npy", at=0, data=b"xxx")]
    other = Board(tmp_path / "other", 1, 2, create=True)
    other.posted[0, 1] = 6
    take_in(room, Laid(file="board", at=0, data=other.cells.tobytes()))
    assert Board(room / "board", 1, 2).posted.tolist() == [[4, 6]]


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path / "board", 1, 1, create=True)


def traffic(board: Board) -> Traffic:
    """Of a host that nobody waits for."""
    return Traffic(b"token", Path(), [], [], board.cells, np.zeros(0, np.int64), awaited=False)


@pytest.fixture
def gateway(board: Board) -> Iterator[Gateway]:
    opened = Gateway("127.0.0.1", lambda reason: None)
    opened.begin(traffic(board))
    yield opened
    opened.close()


def place(gateway: Gateway) -> tuple[str, int]:
    host, _, port = gateway.address.rpartition(":")
    return host, int(port)


def test_who_knows_the_token_is_let_in_and_strangers_are_told_of_once(
    gateway: Gateway, board: Board, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        with pytest.raises(OSError, match=r".*"):
            dial(place(gateway), b"other", BOARD)
    with socket.create_connection(place(gateway)) as silent:
        known = dial(place(gateway), b"token", BOARD)
        with known.connection:
            known.connection.sendall(Seal(known.key).close(np.array([0, 7], "<i8").tobytes()))
            known.connection.shutdown(socket.SHUT_WR)
            assert known.connection.recv(1) == b""  # heard to the end
        assert board.cells[0] == 7
        silent.close()
    (told,) = caplog.messages
    assert told.startswith("127.0.0.1: refused a connection between hosts of an emulation: who dialled does not know")


def test_of_too_many_strangers_the_oldest_are_turned_away(
    gateway: Gateway, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "MAX_UNNAMED", 2)
    with contextlib.ExitStack() as strangers:
        first, *_ = [strangers.enter_context(socket.create_connection(place(gateway))) for _ in range(3)]
        while first.recv(64):  # its challenge, and then the end
            pass
        strangers.enter_context(dial(place(gateway), b"token", BOARD).connection)


def test_a_host_that_hangs_up_before_the_end_is_told_of(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prism.gpu.emulation.gateway.GRACE_S", 0.01)
    told: queue.SimpleQueue[str] = queue.SimpleQueue()
    opened = Gateway("127.0.0.1", told.put)
    opened.begin(traffic(board))
    dial(place(opened), b"token", BOARD).connection.close()
    assert "another host has hung up" in told.get(timeout=60)
    opened.close()


def test_who_is_early_waits_for_the_emulation(board: Board) -> None:
    opened = Gateway("127.0.0.1", lambda reason: None)
    with ThreadPoolExecutor(1) as pool:
        early = pool.submit(dial, place(opened), b"token", BOARD)
        opened.begin(traffic(board))
        early.result().connection.close()
    opened.close()


def test_a_door_that_could_not_be_opened_once_is_opened_again(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    answers: list[Any] = [OSError(errno.EMFILE, "too many open files"), server.accept]

    def accept() -> Any:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, OSError):
            raise answer
        return answer()

    hesitant = SimpleNamespace(accept=accept, fileno=server.fileno, getsockname=server.getsockname, close=server.close)
    monkeypatch.setattr(socket, "create_server", lambda *_, **__: hesitant)
    opened = Gateway("127.0.0.1", lambda reason: None)
    opened.begin(traffic(board))
    dial(place(opened), b"token", BOARD).connection.close()
    opened.close()
