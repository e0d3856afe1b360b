"""The payload store: what is put can be read by whoever has the reference, and released room is used again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.core.calls import Ref
from prism.net.payloads import CHUNK, IOV_MAX, Arena, Library


@pytest.fixture
def arena(tmp_path: Path) -> Arena:
    return Arena(tmp_path, "rank-0")


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "nowhere", tmp_path)


def test_buffers_lie_back_to_back(arena: Arena, library: Library) -> None:
    ref = arena.put([b"abc", bytearray(b"de")], 5)
    assert library.read(ref) == b"abcde"
    assert library.read(ref.part(1, 3)) == b"bcd"


def test_more_buffers_than_one_call_takes(arena: Arena, library: Library) -> None:
    pieces = [bytes([i % 251]) for i in range(IOV_MAX + 10)]
    ref = arena.put(pieces, len(pieces))
    assert library.read(ref) == b"".join(pieces)


def test_a_payload_of_nothing(arena: Arena, library: Library) -> None:
    assert library.read(arena.put([], 0)) == b""


def test_payloads_of_several_arenas_are_joined(tmp_path: Path, arena: Arena, library: Library) -> None:
    other = Arena(tmp_path, "rank-1")
    large = bytes(range(256)) * (CHUNK // 128)
    parts = [arena.put([b"first"], 5), other.put([large], len(large)), arena.put([], 0), other.put([b"last"], 4)]
    assert library.read(arena.join(parts, library)) == b"first" + large + b"last"


def test_released_room_is_used_again(arena: Arena, library: Library) -> None:
    first, second = arena.put([b"a" * 1000], 1000), arena.put([b"b" * 1000], 1000)
    arena.release(first)
    third = arena.put([b"c" * 990], 990)
    assert third.offset == first.offset
    assert library.read(second) == b"b" * 1000
    assert library.read(third) == b"c" * 990


def test_an_unknown_file_is_named(library: Library) -> None:
    with pytest.raises(FileNotFoundError, match="payload file rank-9 is in none of"):
        library.read(Ref("rank-9", 0, 4))


def test_a_file_that_ends_too_early_is_an_error(arena: Arena, library: Library) -> None:
    ref = arena.put([b"abc"], 3)
    with pytest.raises(EOFError, match="ends at byte 3"):
        library.read(Ref(ref.file, ref.offset, 4))


@given(st.lists(st.binary(max_size=3000), max_size=30), st.data())
def test_living_payloads_never_overlap(
    tmp_path_factory: pytest.TempPathFactory, data: list[bytes], draw: st.DataObject
) -> None:
    directory = tmp_path_factory.mktemp("arena")
    arena, library = Arena(directory, "rank-0"), Library(directory)
    living: dict[Ref, bytes] = {}
    for value in data:
        living[arena.put([value] if value else [], len(value))] = value
        if living and draw.draw(st.booleans()):
            gone = draw.draw(st.sampled_from(sorted(living, key=lambda ref: ref.offset)))
            arena.release(gone)
            del living[gone]
    assert [bytes(library.read(ref)) for ref in living] == list(living.values())
    arena.close()
    library.close()


def test_a_reference_leads_to_no_file_of_another_folder(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "store").mkdir()
    for name in ("../secret", str(tmp_path / "secret")):
        with pytest.raises(FileNotFoundError, match="is in none of"):
            Library(tmp_path / "store").read(Ref(name, 0, 6))
