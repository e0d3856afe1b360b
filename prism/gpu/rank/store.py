"""torch.distributed's stores on a rank: every call goes to the one store of the run."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

from prism.core.calls import StoreCall
from prism.gpu.rank.link import Link


class RankStore(dist.Store):
    """Keys and values shared by all ranks of the run; with a `prefix`, those of one of several stores."""

    def __init__(self, link: Link, prefix: str = "") -> None:
        super().__init__()
        self._link = link
        self._prefix = prefix

    def clone(self) -> RankStore:
        """Another handle on the same keys: this one, which somebody keeps alive."""
        return self

    def set(self, key: str, value: Any) -> None:
        self._link.ask(StoreCall("set", (self._prefix + key,), _bytes(value)))

    def get(self, key: str) -> bytes:
        return self._link.ask(StoreCall("get", (self._prefix + key,))).value

    def add(self, key: str, amount: int) -> int:
        return self._link.ask(StoreCall("add", (self._prefix + key,), amount=amount)).number

    def append(self, key: str, value: Any) -> None:
        self._link.ask(StoreCall("append", (self._prefix + key,), _bytes(value)))

    def check(self, keys: list[str]) -> bool:
        return self._link.ask(StoreCall("check", self._full(keys))).present

    def compare_set(self, key: str, expected: Any, desired: Any) -> bytes:
        return self._link.ask(StoreCall("compare_set", (self._prefix + key,), _bytes(expected), _bytes(desired))).value

    def delete_key(self, key: str) -> bool:
        return self._link.ask(StoreCall("delete", (self._prefix + key,))).present

    def num_keys(self) -> int:
        return self._link.ask(StoreCall("count", (self._prefix,))).number

    def wait(self, keys: list[str], timeout: Any = None) -> None:
        self._link.ask(StoreCall("wait", self._full(keys)))

    def multi_get(self, keys: list[str]) -> list[bytes]:
        return [self.get(key) for key in keys]

    def multi_set(self, keys: list[str], values: list[Any]) -> None:
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        return True

    deleteKey, getNumKeys = delete_key, num_keys  # what torch calls them where a prefix is put before the keys

    def _full(self, keys: list[str]) -> tuple[str, ...]:
        return tuple(self._prefix + key for key in keys)


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)
