"""Putting PRISM's groups and store where torch.distributed makes its own; the program notices nothing."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d

from prism.gpu.communicator import Communicator
from prism.gpu.link import Link
from prism.gpu.store import RankStore

FACE_VARIABLE = "PRISM_PROCESS_GROUP"
"""`python` chooses the process group written in Python where the C++ one is there too; for tests and for comparison."""


def substitute(link: Link, world: int) -> None:
    """From here on every group and every rendezvous of this process is PRISM's.

    One place for groups: BackendConfig, which every way to make a group passes; what the user asked for stays what
    `dist.get_backend()` says. One place for stores: the function behind the env:// and tcp:// rendezvous.
    """
    face = _face()

    def create(options: Any, backend_options: Any) -> Any:
        ranks = tuple(options.global_ranks_in_group) or tuple(range(world))
        name = str(options.group_id) if options.global_ranks_in_group else "default"
        return face.group(Communicator(link, name, ranks, options.group_rank, "gloo", face.wrap))

    dist.Backend.register_backend("prism", create, extended_api=True, devices=["cpu"])
    for name in ("gloo", "nccl", "undefined"):
        dist.Backend.backend_type_map[name] = dist.ProcessGroup.BackendType.CUSTOM
    _configure_groups()
    store = RankStore(link)
    # By its full name: in torch.distributed the name `rendezvous` is a function, not the module.
    module: Any = sys.modules["torch.distributed.rendezvous"]
    module._create_c10d_store = lambda *_, **__: store


def _face() -> Any:
    """The module that shows communicators to torch."""
    if os.environ.get(FACE_VARIABLE) != "python":
        try:
            return importlib.import_module("prism.gpu.native_group")
        except ImportError:
            pass  # built for another torch, or not at all: the one in Python does nearly the same
    return importlib.import_module("prism.gpu.python_group")


def _configure_groups() -> None:
    plain = c10d.BackendConfig.__init__

    def configure(self: Any, backend: Any) -> None:
        plain(self, backend)
        self.device_backend_map = {device: dist.Backend("prism") for device in {"cpu": 0, **self.device_backend_map}}

    c10d.BackendConfig.__init__ = configure  # type: ignore[method-assign]
    # With TORCH_DISTRIBUTED_DEBUG=DETAIL torch compares all calls over a gloo group of its own; that is done here anyway.
    c10d._create_process_group_wrapper = lambda wrapped_pg, **_: wrapped_pg
