"""Putting PRISM's groups and store where torch.distributed makes its own; the program notices nothing."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d

from prism.core.events import Noticed
from prism.gpu.group.side_streams import SideStreams
from prism.gpu.group.stream_calls import watch
from prism.gpu.rank.children import watch_children
from prism.gpu.rank.link import Link
from prism.gpu.rank.own_stores import own_stores
from prism.gpu.rank.store import RankStore

FACE_VARIABLE = "PRISM_PROCESS_GROUP"
"""`python` chooses the process group written in Python where the C++ one is there too; for tests and for comparison."""

NCCL_VERSION = (2 << 32) | (28 << 16) | 9
"""What a CPU build of torch says when it is asked for NCCL's version: that of torch 2.11's CUDA build."""


def substitute(link: Link, world: int, semantics: str, device: str = "cpu", presented: bool = False) -> None:
    """From here on every group and every rendezvous of this process is PRISM's.

    `device`: the type of the tensors that the program communicates; `presented`: they lie on a CPU all the same.
    """
    Substitution(link, world, semantics, device, presented).install()
    if device == "cuda":
        link.side_streams = SideStreams(link)
        watch(link.side_streams)
    watch_children()


class Substitution:
    """What torch calls in the place of its own.

    One place for groups: BackendConfig, which every way to make a group passes; what the user asked for stays what
    `dist.get_backend()` says. For stores there are two: the function behind the env:// and tcp:// rendezvous, and the
    classes of stores that many processes share, as a program or the file:// rendezvous makes them.
    """

    def __init__(self, link: Link, world: int, semantics: str, device: str, presented: bool) -> None:
        self._link = link
        self._world = world
        self._semantics = semantics
        self._device = device  # whose backend counts where a group has one for each
        self._on_gpu = device == "cuda" and not presented
        self._face = importlib.import_module(link.face_on_gpu) if self._on_gpu else _face(link)
        self._asked = "gloo"  # the backend that the program asked for, for the group that is being made
        self._group: Any = None  # that group, once it is made: a group of two device types is made once

    def install(self) -> None:
        """Take the places."""
        dist.Backend.register_backend(
            "prism", self.make_group, extended_api=True, devices=["cpu", "cuda"] if self._on_gpu else ["cpu"]
        )
        for name in ("gloo", "nccl", "undefined"):
            dist.Backend.backend_type_map[name] = dist.ProcessGroup.BackendType.CUSTOM
        torch_side: Any = c10d  # what is put there is not as torch declares it
        plain = torch_side.BackendConfig.__init__

        def configure(config: Any, backend: Any) -> None:
            plain(config, backend)
            self._begin_group(config)

        torch_side.BackendConfig.__init__ = configure
        torch_side.ProcessGroup._get_sequence_number_for_group = _sequence_number
        if not hasattr(torch._C, "_nccl_version"):  # torch asks it when it logs an exception of an NCCL group
            torch._C._nccl_version = lambda: NCCL_VERSION
            torch._C._nccl_version_suffix = lambda: b""
        # In debug mode DETAIL torch compares all calls over a gloo group of its own; that is done here anyway.
        torch_side._create_process_group_wrapper = lambda wrapped_pg, **_: wrapped_pg
        # By its full name: in torch.distributed the name `rendezvous` is a function, not the module.
        module: Any = sys.modules["torch.distributed.rendezvous"]
        stores: dict[int, RankStore] = {}  # C++ alone would not keep what is Python's of them

        def store_at(hostname: str, port: int, *_: Any, **__: Any) -> RankStore:
            return stores.setdefault(port, RankStore(self._link, f"port {port}"))

        module._create_c10d_store = store_at
        for made in own_stores(self._link):
            setattr(dist, made.__name__, made)
            setattr(module, made.__name__, made)

    def make_group(self, options: Any, backend_options: Any) -> Any:
        """The backend of a group; torch asks once for each device type."""
        if self._group is None:
            default = not options.global_ranks_in_group
            name = "default" if default else str(options.group_id)
            ranks = range(self._world) if default else options.global_ranks_in_group
            backend = self._asked if self._semantics == "auto" else self._semantics
            if default:
                self._refuse_another_world(options.group_rank, options.group_size)
                self._look_for_leftovers(options.store, backend, options.group_rank)
            communicator = self._face.Communicator(
                self._link, name, tuple(ranks), options.group_rank, backend, self._face.wrap
            )
            self._group = self._face.group(communicator, options, backend_options)
        return self._group

    def _refuse_another_world(self, rank: int, size: int) -> None:
        if (rank, size) != (self._link.rank, self._world):
            here = f"this process is rank {self._link.rank} of {self._world}"
            raise RuntimeError(
                f"init_process_group with rank {rank} of {size}: {here}, and other numbers are not available yet"
            )

    def _look_for_leftovers(self, store: Any, backend: str, rank: int) -> None:
        """A second init through the same store finds what the first has left there."""
        key = f"prism/init/{rank}"
        try:
            times = store.add(key, 1)
        except RuntimeError:  # no store at all: torch's backend fake needs none
            return
        if times == 1:
            return
        what = "the store still holds what an earlier init_process_group left in it"
        if backend == "gloo":
            raise RuntimeError(f"Gloo connectFullMesh failed: {what}, and ranks connect to addresses that are gone")
        self._link.tell(Noticed(rank=self._link.rank, kind="store_reuse", summary=f"{what}; give each init its own"))

    def _begin_group(self, config: Any) -> None:
        backends = {device: str(name) for device, name in config.device_backend_map.items()}
        if "mpi" in backends.values():
            raise RuntimeError("ranks of the backend mpi are numbered by mpirun, which starts none here; choose gloo")
        self._asked = backends.get(self._device) or next(iter(backends.values()), "gloo")
        self._group = None
        devices = backends if self._on_gpu else {"cpu": "", **backends}  # presented tensors lie on a CPU
        config.device_backend_map = {device: dist.Backend("prism") for device in devices}


def _sequence_number(group: Any) -> int:
    """How many operations this rank has posted on the group; torch itself knows only its own backends' numbers."""
    number: int = group._get_backend(group._device_types[0]).posted
    return number


def _face(link: Link) -> Any:
    """The module that shows communicators to torch; where it is not the C++ one by no choice, that is told."""
    if os.environ.get(FACE_VARIABLE) != "python":
        try:
            return importlib.import_module("prism.gpu.group.native_group")
        except ImportError as error:
            summary = (
                f"the process group in Python stands in for the C++ one ({error}); "
                "build it with `pip install --no-build-isolation -e .`"
            )
            link.tell(Noticed(rank=link.rank, kind="python_group", summary=summary))
    return importlib.import_module("prism.gpu.group.python_group")
