"""The key-value stores through which ranks find each other, with the semantics of torch.distributed's."""

from __future__ import annotations

from collections import defaultdict

from prism.core.calls import Reply, StoreCall

SETS = frozenset({"set", "add", "append", "compare_set"})
"""Calls after which a key may be there that somebody waits for."""


class Store:
    """Keys and values of a run's stores. Calls that must wait for a key give None, are asked again after a change."""

    def __init__(self) -> None:
        self._stores: defaultdict[str, dict[str, bytes]] = defaultdict(dict)

    def ask(self, call: StoreCall) -> Reply | None:
        """Do one call; None means that the caller has to wait until one of its keys is set."""
        values = self._stores[call.store]
        match call.action:
            case "set":
                values[call.keys[0]] = call.value
                return Reply()
            case "get":
                value = values.get(call.keys[0])
                return None if value is None else Reply(value)
            case "wait":
                return Reply() if _has_all(values, call.keys) else None
            case "check":
                return Reply(present=_has_all(values, call.keys))
            case "add":
                return _add(values, call.keys[0], call.amount)
            case "append":
                values[call.keys[0]] = values.get(call.keys[0], b"") + call.value
                return Reply()
            case "compare_set":
                return _compare_set(values, call.keys[0], call.value, call.desired)
            case "delete":
                return Reply(present=values.pop(call.keys[0], None) is not None)
            case "count":
                return Reply(number=len(values))
            case _:
                raise ValueError(f"store call {call.action!r} is unknown")

    def missing(self, call: StoreCall) -> list[str]:
        """The keys that the call waits for."""
        return [key for key in call.keys if key not in self._stores[call.store]]


def _has_all(values: dict[str, bytes], keys: tuple[str, ...]) -> bool:
    return all(key in values for key in keys)


def _add(values: dict[str, bytes], key: str, amount: int) -> Reply:
    try:
        number = int(values.get(key, b"0")) + amount
    except ValueError:
        return Reply(error=f"store key {key!r} holds {values[key]!r}, to which nothing can be added")
    values[key] = str(number).encode()
    return Reply(number=number)


def _compare_set(values: dict[str, bytes], key: str, expected: bytes, desired: bytes) -> Reply:
    # As torch's stores: an absent key is set only if nothing was expected; the caller gets what is there now.
    current = values.get(key)
    if current == expected or (current is None and not expected):
        values[key] = current = desired
    return Reply(expected if current is None else current)
