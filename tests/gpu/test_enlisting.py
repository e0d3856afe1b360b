"""Enlisting: a worker finds its address, its name and its token, and waits for those that are to come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NoReturn

import pytest

from prism.errors import RunError
from prism.gpu.processes import enlisting
from prism.gpu.processes.enlisting import NotReached, arguments, enlist, host_name, reached_at
from prism.net.keys import WorkerKeys, make_keys
from prism.net.transport import ConnectionRefused, IdentityTaken
from prism.net.zeromq import ZmqListener


@pytest.fixture
async def listener(tmp_path: Path) -> AsyncIterator[tuple[ZmqListener, WorkerKeys]]:
    keys, worker_keys = make_keys()
    async with ZmqListener(keys) as listening:
        yield listening, worker_keys


def test_a_worker_is_reached_where_its_way_to_the_coordinator_begins() -> None:
    assert reached_at("tcp://127.0.0.1:5711") == "127.0.0.1"
    with pytest.raises(RunError, match="--coordinator: expected tcp://host:port, got tcp://somewhere"):
        reached_at("tcp://somewhere")


def test_an_address_that_is_none_is_told_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["worker", "--coordinator", "node1:5711", "--token-file", "token"])
    with pytest.raises(SystemExit):
        arguments("")
    assert "--coordinator: expected tcp://host:port, got 'node1:5711'" in capsys.readouterr().err


def test_a_host_is_called_as_files_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "node7.cluster/é")
    assert host_name() == "node7-cluster--"


async def test_a_second_worker_of_a_host_gets_a_number(
    listener: tuple[ZmqListener, WorkerKeys], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "node")
    listening, keys = listener
    token = keys.save(tmp_path)
    found = [await enlist(listening.address, token, "", 0.0) for _ in range(2)]
    assert [one.name for one in found] == ["node", "node-2"]
    with pytest.raises(NotReached, match="is taken"):
        await enlist(listening.address, token, "node", 0.0)
    await asyncio.gather(*(one.connection.close() for one in found))


async def test_only_a_name_that_is_taken_is_given_up_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    async def connect(address: str, identity: str, *_: object, **__: object) -> NoReturn:
        tried.append(identity)
        if len(tried) == 1:
            raise IdentityTaken("whatever it says")
        raise ConnectionRefused("the last place is taken")

    monkeypatch.setattr("socket.gethostname", lambda: "node")
    monkeypatch.setattr(enlisting, "connect", connect)
    with pytest.raises(NotReached, match="the last place is taken"):
        await enlist("tcp://127.0.0.1:9", make_keys()[1].save(tmp_path), "", 0.0)
    assert tried == ["node", "node-2"]


async def test_the_token_may_be_in_coming(
    listener: tuple[ZmqListener, WorkerKeys], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enlisting, "AGAIN_S", 0.01)
    listening, keys = listener
    enlisted = asyncio.ensure_future(enlist(listening.address, tmp_path / "token", "w", 60.0))
    await asyncio.sleep(0.05)
    keys.save(tmp_path, "token")
    await (await enlisted).connection.close()


async def test_a_token_that_does_not_come_or_that_others_can_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"cannot read the keys of the run from .*token"):
        await enlist("tcp://127.0.0.1:1", tmp_path / "token", "w", 0.0)
    token = make_keys()[1].save(tmp_path)
    token.chmod(0o644)
    with pytest.raises(RunError, match="open to others"):
        await enlist("tcp://127.0.0.1:1", token, "w", 60.0)


async def test_a_coordinator_that_does_not_answer_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enlisting, "ANSWER_S", 0.05)
    with pytest.raises(NotReached, match="no answer in 0 s; is the coordinator running"):
        await enlist("tcp://127.0.0.1:9", make_keys()[1].save(tmp_path), "w", 0.0)
