"""The store: what each call gives, and which calls wait."""

from __future__ import annotations

import pytest

from prism.core.calls import Reply, StoreCall
from prism.core.stage.store import Store


def ask(store: Store, action: str, *keys: str, value: bytes = b"", desired: bytes = b"", amount: int = 0):
    return store.ask(StoreCall(action, keys, value, desired, amount))


@pytest.fixture
def store() -> Store:
    """A store in which `key` holds `old`."""
    made = Store()
    ask(made, "set", "key", value=b"old")
    return made


def test_get_gives_what_was_set_last(store: Store) -> None:
    ask(store, "set", "key", value=b"new")
    assert ask(store, "get", "key") == Reply(b"new")


def test_get_waits_for_a_key_that_is_not_there(store: Store) -> None:
    assert ask(store, "get", "other") is None


def test_an_empty_value_is_there(store: Store) -> None:
    ask(store, "set", "other")
    assert ask(store, "get", "other") == Reply(b"")


def test_a_store_of_another_name_is_another(store: Store) -> None:
    assert store.ask(StoreCall("get", ("key",), store="port 29600")) is None
    store.ask(StoreCall("set", ("key",), b"there", store="port 29600"))
    assert ask(store, "get", "key") == Reply(b"old")
    assert store.ask(StoreCall("count", store="port 29600")) == Reply(number=1)
    assert store.missing(StoreCall("wait", ("key", "n"), store="port 29600")) == ["n"]


def test_wait_is_over_when_all_keys_are_there(store: Store) -> None:
    assert ask(store, "wait", "key", "other") is None
    ask(store, "set", "other")
    assert ask(store, "wait", "key", "other") == Reply()


def test_check_does_not_wait(store: Store) -> None:
    assert [ask(store, "check", *keys).present for keys in (("key",), ("key", "other"), ())] == [True, False, True]


def test_add_counts_from_zero_and_leaves_a_number_as_text(store: Store) -> None:
    assert [ask(store, "add", "n", amount=n).number for n in (3, -5, 0)] == [3, -2, -2]
    assert ask(store, "get", "n") == Reply(b"-2")


def test_add_goes_on_from_a_number_that_was_set(store: Store) -> None:
    ask(store, "set", "n", value=b"40")
    assert ask(store, "add", "n", amount=2).number == 42


def test_add_refuses_text_and_leaves_it(store: Store) -> None:
    assert ask(store, "add", "key", amount=1).error == "store key 'key' holds b'old', to which nothing can be added"
    assert ask(store, "get", "key") == Reply(b"old")


def test_append_makes_a_key_longer_or_new(store: Store) -> None:
    for key in ("key", "other"):
        ask(store, "append", key, value=b"er")
    assert [ask(store, "get", key).value for key in ("key", "other")] == [b"older", b"er"]


@pytest.mark.parametrize(
    ("key", "expected", "reply", "kept"),
    [
        ("key", b"old", b"new", b"new"),  # as expected: set
        ("key", b"else", b"old", b"old"),  # not as expected: what is there
        ("other", b"", b"new", b"new"),  # nothing expected, nothing there: set
        ("other", b"else", b"else", None),  # something expected, nothing there: what was expected
        ("key", b"", b"old", b"old"),  # nothing expected, something there
    ],
)
def test_compare_set(store: Store, key: str, expected: bytes, reply: bytes, kept: bytes | None) -> None:
    assert ask(store, "compare_set", key, value=expected, desired=b"new") == Reply(reply)
    assert ask(store, "get", key) == (None if kept is None else Reply(kept))


def test_delete_tells_whether_the_key_was_there(store: Store) -> None:
    assert [ask(store, "delete", "key").present for _ in range(2)] == [True, False]
    assert ask(store, "get", "key") is None


def test_count_gives_the_number_of_keys(store: Store) -> None:
    ask(store, "add", "n")
    assert ask(store, "count").number == 2


def test_missing_names_what_a_call_waits_for(store: Store) -> None:
    assert store.missing(StoreCall("wait", ("a", "key", "b"))) == ["a", "b"]


def test_an_unknown_call_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="store call 'increment' is unknown"):
        ask(store, "increment", "key")
