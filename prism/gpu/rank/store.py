"""torch.distributed's stores on a rank: every call goes to those of the run."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

from prism.core.calls import StoreCall
from prism.core.instructions import Answer
from prism.gpu.rank.link import Link


class RankStore(dist.Store):
    """Keys and values shared by all ranks of the run: those of the store of a name."""

    def __init__(self, link: Link, name: str) -> None:
        super().__init__()
        self._link = link
        self._name = name

    def clone(self) -> RankStore:
        """Another handle on the same keys: this one, which somebody keeps alive."""
        return self

    def set(self, key: str, value: Any) -> None:
        self._ask("set", key, value=value)

    def get(self, key: str) -> bytes:
        return self._ask("get", key).value

    def add(self, key: str, amount: int) -> int:
        return self._ask("add", key, amount=amount).number

    def append(self, key: str, value: Any) -> None:
        self._ask("append", key, value=value)

    def check(self, keys: list[str]) -> bool:
        return self._ask("check", *keys).present

    def compare_set(self, key: str, expected: Any, desired: Any) -> bytes:
        return self._ask("compare_set", key, value=expected, desired=desired).value

    def delete_key(self, key: str) -> bool:
        return self._ask("delete", key).present

    def num_keys(self) -> int:
        return self._ask("count").number

    def wait(self, keys: list[str], timeout: Any = None) -> None:
        self._ask("wait", *keys)

    def multi_get(self, keys: list[str]) -> list[bytes]:
        return [self.get(key) for key in keys]

    def multi_set(self, keys: list[str], values: list[Any]) -> None:
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        return True

    deleteKey, getNumKeys = delete_key, num_keys  # what torch calls them where a prefix is put before the keys

    def _ask(self, action: str, *keys: str, value: Any = b"", desired: Any = b"", amount: int = 0) -> Answer:
        return self._link.ask(StoreCall(action, keys, _bytes(value), _bytes(desired), amount, self._name))


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)
