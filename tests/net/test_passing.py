"""What is spent once it is read lies in memory, and on the disk where memory is short."""

from __future__ import annotations

from pathlib import Path

import pytest

from prism.net import passing
from prism.net.passing import OVERFLOW, Passing
from prism.net.payloads import Library

MIB = 1 << 20


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    directory = tmp_path / "memory"
    directory.mkdir()
    return directory


@pytest.fixture
def store(memory: Path, tmp_path: Path) -> Passing:
    return Passing(memory, tmp_path, "rank-0")


def leave(monkeypatch: pytest.MonkeyPatch, free: int, total: int = 100 * MIB) -> None:
    """Let the memory's file system have so much room."""
    monkeypatch.setattr(passing, "_room", lambda _: (free, total))


def blocks(directory: Path) -> int:
    """Bytes that the files of a directory take."""
    return sum(path.stat().st_blocks * 512 for path in directory.iterdir() if path.is_file())


def test_a_payload_lies_in_memory_while_there_is_room(
    store: Passing, memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(monkeypatch, 20 * MIB)
    assert store.arena(10 * MIB).directory == memory
    assert store.arena(10 * MIB + 1).directory == tmp_path / OVERFLOW


def test_what_is_on_the_disk_is_read_like_any_other(
    store: Passing, memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(monkeypatch, 0)
    ref = store.arena(3).put([b"abc"], 3)
    assert Library(memory, tmp_path, tmp_path / OVERFLOW).read(ref) == b"abc"
    store.release(ref)
    leave(monkeypatch, 100 * MIB)
    assert store.arena(3).put([b"abc"], 3).file != ref.file


def test_room_is_used_again_where_memory_is_plenty(
    store: Passing, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(monkeypatch, 60 * MIB)
    ref = store.arena(MIB).put([b"a" * MIB], MIB)
    store.release(ref)
    assert blocks(memory) >= MIB
    assert store.arena(MIB).put([b"b" * MIB], MIB) == ref


def test_pages_are_given_back_where_memory_is_scarce(
    store: Passing, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(monkeypatch, 40 * MIB)
    first, second = (store.arena(MIB).put([b"a" * MIB], MIB) for _ in range(2))
    store.release(first)
    assert blocks(memory) < 2 * MIB
    assert Library(memory).read(second) == b"a" * MIB
    assert store.arena(MIB).put([b"b" * MIB], MIB) == first
    assert Library(memory).read(first) == b"b" * MIB
