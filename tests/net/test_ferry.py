"""Ferries: what lies on one host comes whole to another, in chunks, once for all who need it, with the keys only."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from prism.core.calls import Ref
from prism.net.ferry import Ferry
from prism.net.keys import WorkerKeys, make_keys
from prism.net.passing import Passing
from prism.net.payloads import CHUNK, Arena, Library
from prism.net.peer import NotThere, Window
from prism.net.transport import ConnectionRefused


@dataclass
class Host:
    """A host: its ferry, a folder that is its alone, and the arena of one of its ranks."""

    name: str
    ferry: Ferry
    folder: Path
    arena: Arena

    def read(self, ref: Ref) -> bytes:
        return bytes(Library(self.folder).read(ref))


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[list[Host]]:
    keys = make_keys()[1]
    found = [make_host(tmp_path, name, keys) for name in ("a", "b")]
    for host in found:
        begin(host, found)
    yield found
    for host in found:
        host.ferry.close()


def make_host(tmp_path: Path, name: str, keys: WorkerKeys) -> Host:
    folder = tmp_path / name
    folder.mkdir()
    return Host(name, Ferry(name, "127.0.0.1", keys), folder, Arena(folder, f"{name}.s1-0-input"))


def begin(host: Host, all_hosts: list[Host], stage: int = 1) -> None:
    others = {other.name: other.ferry.address for other in all_hosts if other is not host}
    room = Passing(host.folder, host.folder, f"{host.name}.s{stage}-ferry")
    host.ferry.begin(others, [host.folder], room)


def is_open(path: Path) -> bool:
    """Whether this process has the file open."""
    links = (Path("/proc/self/fd", number) for number in os.listdir("/proc/self/fd"))
    return any(os.path.exists(link) and path.samefile(link) for link in links)


def content(nbytes: int) -> bytes:
    return bytes(i * 31 % 251 for i in range(min(nbytes, 4096))) * (nbytes // 4096 + 1)


@pytest.mark.parametrize("nbytes", [0, 1, CHUNK, 12 * CHUNK + 5])
def test_a_payload_comes_whole(hosts: list[Host], nbytes: int) -> None:
    here, there = hosts
    data = content(nbytes)[:nbytes]
    ref = there.arena.put([data] if data else [], nbytes)
    (copy,) = here.ferry.bring([ref]).result()
    assert (copy.host, copy.nbytes) == ("a", nbytes)
    assert here.read(copy) == data


def test_both_ways_and_many_at_a_time(hosts: list[Host]) -> None:
    sizes = range(1000, 1300)
    refs = [[host.arena.put([content(size)[:size]], size) for size in sizes] for host in hosts]
    coming = [hosts[0].ferry.bring(refs[1]), hosts[1].ferry.bring(refs[0])]
    for host, copies in zip(hosts, coming, strict=True):
        assert [host.read(copy) for copy in copies.result()] == [content(size)[:size] for size in sizes]


def test_all_who_need_it_at_one_time_share_a_copy_and_its_room_is_used_again(hosts: list[Host]) -> None:
    here, there = hosts
    ref, other = there.arena.put([b"x" * 100], 100), there.arena.put([b"y" * 100], 100)
    (first,), (second,) = here.ferry.bring([ref]).result(), here.ferry.bring([ref]).result()
    assert first == second
    here.ferry.release([ref])
    (third,) = here.ferry.bring([other]).result()
    assert third.offset != first.offset
    here.ferry.release([ref])
    again = there.arena.put([b"z" * 100], 100)
    (fourth,) = here.ferry.bring([again]).result()
    assert fourth == first
    assert here.read(fourth) == b"z" * 100


def test_room_that_is_used_again_is_sent_for_again(hosts: list[Host]) -> None:
    here, there = hosts
    ref = there.arena.put([b"x" * 100], 100)
    here.ferry.bring([ref]).result()
    here.ferry.release([ref])
    there.arena.release(ref)
    assert there.arena.put([b"y" * 100], 100) == ref
    (copy,) = here.ferry.bring([ref]).result()
    assert here.read(copy) == b"y" * 100


@pytest.mark.parametrize(
    ("file", "told"),
    [("b.gone", "b: .*b.gone is in none of"), ("b.../../etc/passwd", "b: .* is no chunk of a payload")],
)
def test_what_is_not_there_is_told(hosts: list[Host], file: str, told: str) -> None:
    with pytest.raises(NotThere, match=told):
        hosts[0].ferry.bring([Ref(file, 0, 10)]).result()


def test_a_payload_that_is_cut_off_is_told(hosts: list[Host]) -> None:
    ref = hosts[1].arena.put([b"x"], 1)
    with pytest.raises(NotThere, match="ends inside a payload"):
        hosts[0].ferry.bring([Ref(ref.file, 0, 200)]).result()


def test_what_a_host_left_that_is_no_worker_any_more_is_read_where_all_share_a_folder(hosts: list[Host]) -> None:
    here = hosts[0]
    ref = Arena(here.folder, "c.s1-0-result").put([b"x"], 1)
    assert here.ferry.bring([ref]).result() == [ref]
    with pytest.raises(NotThere, match=r"d is not among the workers, and .*; capture again"):
        here.ferry.bring([Ref("d.s1-0-result", 0, 1)]).result()


def test_copies_of_a_stage_go_with_it(hosts: list[Host]) -> None:
    here, there = hosts
    ref = there.arena.put([b"x" * 100], 100)
    (first,) = here.ferry.bring([ref]).result()
    begin(here, hosts, stage=2)
    (second,) = here.ferry.bring([ref]).result()
    assert second.file != first.file
    assert here.read(second) == b"x" * 100
    assert not is_open(here.folder / first.file), "its memory would stay taken"
    assert is_open(here.folder / second.file)


@pytest.mark.parametrize("wanted", [Ref("b.s1-0\0", 0, 1), Ref("b.s1-0-input", 2**63, 1), Ref("b.", 0, 1)])
def test_who_asks_for_what_cannot_be_is_told_so_and_others_are_served(hosts: list[Host], wanted: Ref) -> None:
    here, there = hosts
    ref = there.arena.put([b"x"], 1)
    with pytest.raises(NotThere, match="b: "):
        here.ferry.bring([wanted]).result()
    (copy,) = here.ferry.bring([ref]).result()
    assert here.read(copy) == b"x"


def test_a_ferry_of_another_run_gets_nothing(
    hosts: list[Host], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prism.net.zeromq.connect.__kwdefaults__", {"limit": 1 << 20, "within": 0.2}, raising=True)
    stranger = make_host(tmp_path, "stranger", make_keys()[1])
    begin(stranger, [*hosts, stranger])
    ref = hosts[1].arena.put([b"secret"], 6)
    with pytest.raises(ConnectionRefused):
        stranger.ferry.bring([ref]).result()
    stranger.ferry.close()


async def test_a_window_is_served_in_order_and_never_overdrawn() -> None:
    window, order = Window(10), list[int]()

    async def take(number: int, nbytes: int) -> None:
        await window.take(nbytes)
        order.append(number)

    tasks = [asyncio.ensure_future(take(number, nbytes)) for number, nbytes in enumerate((6, 6, 1, 4))]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert order == [0]
    tasks[1].cancel()
    await asyncio.gather(tasks[1], return_exceptions=True)
    window.give_back(6)
    await asyncio.gather(tasks[2], tasks[3])
    assert order == [0, 2, 3]
