"""The key-value store through which ranks find each other, with the semantics of torch.distributed's stores."""

from __future__ import annotations

from prism.core.calls import Reply, StoreCall

SETS = frozenset({"set", "add", "append", "compare_set"})
"""Calls after which a key may be there that somebody waits for."""


class Store:
    """Keys and values of one run; calls that must wait for a key give None and are asked again after a change."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}

    def ask(self, call: StoreCall) -> Reply | None:
        """Do one call; None means that the caller has to wait until one of its keys is set."""
        match call.action:
            case "set":
                self._values[call.keys[0]] = call.value
                return Reply()
            case "get":
                value = self._values.get(call.keys[0])
                return None if value is None else Reply(value)
            case "wait":
                return Reply() if self._has_all(call.keys) else None
            case "check":
                return Reply(present=self._has_all(call.keys))
            case "add":
                return self._add(call.keys[0], call.amount)
            case "append":
                self._values[call.keys[0]] = self._values.get(call.keys[0], b"") + call.value
                return Reply()
            case "compare_set":
                return self._compare_set(call.keys[0], call.value, call.desired)
            case "delete":
                return Reply(present=self._values.pop(call.keys[0], None) is not None)
            case "count":
                return Reply(number=sum(key.startswith("".join(call.keys)) for key in self._values))
            case _:
                raise ValueError(f"store call {call.action!r} is unknown")

    def missing(self, call: StoreCall) -> list[str]:
        """The keys that the call waits for."""
        return [key for key in call.keys if key not in self._values]

    def _has_all(self, keys: tuple[str, ...]) -> bool:
        return all(key in self._values for key in keys)

    def _add(self, key: str, amount: int) -> Reply:
        try:
            number = int(self._values.get(key, b"0")) + amount
        except ValueError:
            return Reply(error=f"store key {key!r} holds {self._values[key]!r}, to which nothing can be added")
        self._values[key] = str(number).encode()
        return Reply(number=number)

    def _compare_set(self, key: str, expected: bytes, desired: bytes) -> Reply:
        # As torch's stores: an absent key is set only if nothing was expected; the caller gets what is there now.
        current = self._values.get(key)
        if current == expected or (current is None and not expected):
            self._values[key] = current = desired
        return Reply(expected if current is None else current)
