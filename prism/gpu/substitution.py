"""Putting PRISM's process group and store where torch.distributed makes its own; the program notices nothing."""

from __future__ import annotations

import sys
from typing import Any

import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d

from prism.gpu.link import Link
from prism.gpu.process_group import creator
from prism.gpu.store import RankStore


def substitute(link: Link, world: int) -> None:
    """From here on every group and every rendezvous of this process is PRISM's.

    One place for groups: BackendConfig, which every way to make a group passes; what the user asked for stays what
    `dist.get_backend()` says. One place for stores: the function behind the env:// and tcp:// rendezvous.
    """
    dist.Backend.register_backend("prism", creator(link, world), extended_api=True, devices=["cpu"])
    plain = c10d.BackendConfig.__init__

    def configure(self: Any, backend: Any) -> None:
        plain(self, backend)
        self.device_backend_map = {device: dist.Backend("prism") for device in {"cpu": 0, **self.device_backend_map}}

    c10d.BackendConfig.__init__ = configure  # type: ignore[method-assign]
    store = RankStore(link)
    # By its full name: in torch.distributed the name `rendezvous` is a function, not the module.
    module: Any = sys.modules["torch.distributed.rendezvous"]
    module._create_c10d_store = lambda *_, **__: store
