import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prism.core.calls import Ref
from prism.gpu.emulation.prefetch import HIT, MISS, STALL, Pool
from prism.net.payloads import Arena, Library


class SlowLibrary(Library):
    """Reads a payload when it is let; tells which it has begun."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.let = threading.Semaphore(0)
        self.begun: list[Ref] = []
        self.beginning = threading.Semaphore(0)

    def read(self, ref: Ref) -> bytearray:
        self.begun.append(ref)
        self.beginning.release()
        self.let.acquire()
        return super().read(ref)


@pytest.fixture
def refs(tmp_path: Path) -> list[Ref]:
    arena = Arena(tmp_path, "payloads")
    return [arena.put([bytes([n]) * 100], 100) for n in range(4)]


def counted() -> Any:
    return np.zeros(3, np.int64)


def pool_of(refs: Sequence[Ref], capacity: int, library: Library, counts: Any) -> Pool[int]:
    return Pool(dict(enumerate(refs)), capacity, library, counts)


def test_what_was_read_ahead_is_a_hit(tmp_path: Path, refs: list[Ref]) -> None:
    library, counts = SlowLibrary(tmp_path), counted()
    pool = pool_of(refs, 200, library, counts)
    library.let.release(2)
    for _ in range(2):
        library.beginning.acquire()
    while not all(future.done() for _, future in pool._begun.values()):
        pass
    assert bytes(pool.take(0).view()) == bytes([0]) * 100
    assert bytes(pool.take(1).view()) == bytes([1]) * 100
    assert counts[HIT] == 2
    assert library.begun == refs[:2], "there is room for two"
    library.let.release(2)


def test_room_that_is_released_is_used_again(tmp_path: Path, refs: list[Ref]) -> None:
    library = SlowLibrary(tmp_path)
    pool = pool_of(refs, 100, library, counted())
    library.let.release(4)
    for need in range(4):
        library.beginning.acquire()
        assert bytes(pool.take(need).view()) == bytes([need]) * 100
        pool.release(need)


def test_another_order_than_was_foreseen_goes_through(tmp_path: Path, refs: list[Ref]) -> None:
    library, counts = SlowLibrary(tmp_path), counted()
    pool = pool_of(refs, 100, library, counts)
    library.beginning.acquire()  # the first is being read, and there is room for no other
    library.let.release(2)
    assert bytes(pool.take(3).view()) == bytes([3]) * 100
    assert counts[MISS] == 1
    library.let.release(2)


def test_who_comes_while_it_is_read_has_a_stall(tmp_path: Path, refs: list[Ref]) -> None:
    library, counts = SlowLibrary(tmp_path), counted()
    pool = pool_of(refs[:1], 100, library, counts)
    library.beginning.acquire()
    threading.Timer(0, library.let.release).start()
    pool.take(0)
    assert counts[MISS] == 0
    assert counts[HIT] + counts[STALL] == 1


def test_a_payload_larger_than_the_pool_is_read_alone(tmp_path: Path, refs: list[Ref]) -> None:
    library = SlowLibrary(tmp_path)
    library.let.release(4)
    pool = pool_of(refs, 10, library, counted())
    for need in range(4):
        pool.take(need)
        pool.release(need)


def test_a_missing_file_is_told_to_who_needs_it(tmp_path: Path) -> None:
    pool = pool_of([Ref("nowhere", 0, 10)], 100, Library(tmp_path), counted())
    with pytest.raises(FileNotFoundError, match="nowhere"):
        pool.take(0)
