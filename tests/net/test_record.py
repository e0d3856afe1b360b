"""The record keeps large payloads of equal content once, whoever stores them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prism.exhaustion import Exhausted
from prism.net.payloads import Arena, Library
from prism.net.record import INDEX, LARGE, Record


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path)


def content(seed: int, nbytes: int = LARGE) -> bytes:
    return bytes([seed]) * nbytes


def test_equal_bytes_of_two_processes_are_stored_once(tmp_path: Path, library: Library) -> None:
    one, other = Record(tmp_path, "rank-0"), Record(tmp_path, "rank-1")
    first = one.put([content(1)], LARGE)
    assert other.put([content(1, 1000), content(1, LARGE - 1000)], LARGE) == first
    assert not (tmp_path / "rank-1").exists()
    assert library.read(first) == content(1)


def test_joined_payloads_are_looked_up_too(tmp_path: Path, library: Library) -> None:
    scratch, record = Arena(tmp_path, "scratch"), Record(tmp_path, "rank-0")
    halves = [scratch.put([content(3, LARGE // 2)], LARGE // 2), scratch.put([content(4, LARGE // 2)], LARGE // 2)]
    whole = record.join(halves, library)
    assert library.read(whole) == content(3, LARGE // 2) + content(4, LARGE // 2)
    assert record.join(halves, library) == whole
    assert record.join(halves[::-1], library) != whole


def test_other_bytes_are_stored_beside(tmp_path: Path, library: Library) -> None:
    record = Record(tmp_path, "rank-0")
    refs = [record.put([content(seed)], LARGE) for seed in (1, 2, 1)]
    assert refs[0] == refs[2] != refs[1]
    assert [library.read(ref)[0] for ref in refs] == [1, 2, 1]


def test_small_payloads_are_not_looked_up(tmp_path: Path) -> None:
    record = Record(tmp_path, "rank-0")
    assert record.put([b"ab"], 2) != record.put([b"ab"], 2)
    assert not (tmp_path / INDEX).exists()


def test_who_comes_second_takes_what_the_first_has_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = Record(tmp_path, "rank-0"), Record(tmp_path, "rank-1")
    first = one.put([content(1)], LARGE)
    stored = other._stored  # it looks before the first has published, and again when its own link is refused
    monkeypatch.setattr(other, "_stored", lambda *of: stored(*of) if (tmp_path / "rank-1").exists() else None)
    assert other.put([content(1)], LARGE) == first


def test_nothing_is_rounded_up_to_be_used_again(tmp_path: Path) -> None:
    record = Record(tmp_path, "rank-0")
    record.put([content(1, LARGE + 1)], LARGE + 1)
    assert record.put([b"a"], 1).offset == LARGE + 64


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "symlink", full)
    with pytest.raises(Exhausted, match=f"{tmp_path}: No space left on device"):
        Record(tmp_path, "rank-0").put([content(1)], LARGE)
