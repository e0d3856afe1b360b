"""The store of a group with virtual members: ids that nobody puts there, and what they are said to mean."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from prism.gpu.emulation.device.id_store import ID_BYTES, IdStore


class Heard:
    """What the engine would be told."""

    def __init__(self) -> None:
        self.ids: list[tuple[bytes, list[int]]] = []
        self.store = IdStore(4, self.hear)

    def hear(self, unique: bytes, members: Sequence[int]) -> None:
        self.ids.append((unique, list(members)))


def test_an_id_that_the_rank_puts_there_is_told() -> None:
    heard = Heard()
    heard.store.set("0", b"x" * ID_BYTES)
    assert heard.store.get("0") == b"x" * ID_BYTES
    assert heard.ids == [(b"x" * ID_BYTES, [0, 1, 2, 3])]


def test_an_id_of_a_virtual_member_is_made_up_once() -> None:
    heard = Heard()
    unique = heard.store.get("1:3")
    assert len(unique) == ID_BYTES
    assert heard.store.get("1:3") == unique
    assert heard.ids == [(unique, [1, 3])]


def test_what_else_nobody_puts_there_is_refused() -> None:
    with pytest.raises(
        RuntimeError, match="nobody puts 'sizes' into the store of a group whose other members are virtual"
    ):
        Heard().store.get("sizes")


def test_it_is_a_store_otherwise() -> None:
    heard = Heard()
    assert (heard.store.add("n", 2), heard.store.add("n", 3), heard.store.get("n")) == (2, 5, b"5")
    heard.store.set("key", "value")
    assert (heard.store.check(["key"]), heard.store.check(["key", "other"])) == (True, False)
    assert heard.store.compare_set("key", "value", "new") == b"new"
    assert heard.store.compare_set("key", "value", "newer") == b"new"
    assert (heard.store.delete_key("key"), heard.store.delete_key("key")) == (True, False)
    assert heard.ids == []
