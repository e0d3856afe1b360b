"""The store of a group with virtual members: what torch's NCCL group asks of the members that nobody runs.

A communicator begins with an ncclUniqueId, which its first member puts into the store and the others take from it. Here
whoever comes for one that a virtual member would have put there gets one that is made up; what either means, the engine
is told. Keys are torch's: the communicator's number, or `low:high` for one of two members.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch.distributed as dist

ID_BYTES = 128
_ID_KEY = re.compile(r"(\d+)(?::(\d+))?")

Identify = Callable[[bytes, Sequence[int]], None]
"""Hears what communicator an id means: these members of the group."""


class IdStore(dist.Store):
    """The store of a group of `size` members, on the one of them that is in this process."""

    def __init__(self, size: int, identify: Identify) -> None:
        super().__init__()
        self._size = size
        self._identify = identify
        self._values: dict[str, bytes] = {}

    def set(self, key: str, value: Any) -> None:
        data = value.encode() if isinstance(value, str) else bytes(value)
        if (members := self._members(key)) is not None and len(data) == ID_BYTES:
            self._identify(data, members)
        self._values[key] = data

    def get(self, key: str) -> bytes:
        if key not in self._values:
            members = self._members(key)
            if members is None:
                raise RuntimeError(f"nobody puts {key!r} into the store of a group whose other members are virtual")
            self.set(key, os.urandom(ID_BYTES))
        return self._values[key]

    def add(self, key: str, amount: int) -> int:
        total = int(self._values.get(key, b"0")) + amount
        self._values[key] = str(total).encode()
        return total

    def check(self, keys: list[str]) -> bool:
        return all(key in self._values for key in keys)

    def compare_set(self, key: str, expected: Any, desired: Any) -> bytes:
        was, now = (one.encode() if isinstance(one, str) else bytes(one) for one in (expected, desired))
        if self._values.get(key, was if not was else None) == was:
            self._values[key] = now
        return self._values.get(key, was)

    def delete_key(self, key: str) -> bool:
        return self._values.pop(key, None) is not None

    def num_keys(self) -> int:
        return len(self._values)

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        for key in keys:
            self.get(key)

    def set_timeout(self, timeout: timedelta) -> None:
        """Nothing here takes time."""

    def _members(self, key: str) -> Sequence[int] | None:
        """The members of the communicator whose id has this key; None if it is no such key."""
        found = _ID_KEY.fullmatch(key)
        if found is None:
            return None
        return range(self._size) if found[2] is None else (int(found[1]), int(found[2]))
