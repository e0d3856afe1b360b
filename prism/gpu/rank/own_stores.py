"""Stores that a program makes itself, in the places of torch's: a real one would lack what ranks set that do not run.

In calibration and emulation a rank runs without most others. What they have put into a TCPStore or a FileStore is in
the record, as is all of the rendezvous. There is no server, so nobody waits for one, nor does one wait for workers.
"""

from __future__ import annotations

import os
from typing import Any

from prism.core.calls import StoreCall
from prism.gpu.rank.link import Link
from prism.gpu.rank.store import RankStore

FIRST_PORT = 49152
"""From here on a TCPStore that may choose gets its port: these are for private use, and nobody listens there."""


def own_stores(link: Link) -> tuple[type[RankStore], type[RankStore]]:
    """TCPStore and FileStore, with the arguments of torch's; all stores of one port, or of one file, are one."""

    kept: list[RankStore] = []  # a PrefixStore, which is C++, would not keep what is Python's of them

    class TCPStore(RankStore):
        def __init__(self, host_name: str, port: int = 0, *_: Any, **__: Any) -> None:
            chosen = port or FIRST_PORT - 1 + link.ask(StoreCall("add", ("prism/ports",), amount=1)).number
            super().__init__(link, f"port {chosen}")
            self.host, self.port, self.libuvBackend = host_name, chosen, True
            kept.append(self)

    class FileStore(RankStore):
        def __init__(self, file_name: str, world_size: int = -1) -> None:
            super().__init__(link, f"file {os.path.abspath(file_name)}")
            self.path = file_name
            kept.append(self)

    return TCPStore, FileStore
