"""What needs a real GPU and cannot be presented: it fails at the first use, and says so."""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import torch
import torch.cuda.comm
import torch.cuda.gds
import torch.cuda.jiterator
import torch.nn.parallel.comm

_CLASSES = ("CUDAGraph", "graph", "ExternalStream", "GreenContext", "CUDAPluggableAllocator", "MemPool")
_BETWEEN_DEVICES = ("broadcast", "broadcast_coalesced", "reduce_add", "reduce_add_coalesced", "scatter", "gather")
_FUNCTIONS = {
    torch.cuda: (
        "make_graphed_callables", "graph_pool_handle", "get_stream_from_external", "caching_allocator_alloc",
        "caching_allocator_delete", "change_current_allocator", "use_mem_pool", "current_blas_handle",
        "current_solver_handle", "memory_snapshot", "list_gpu_processes", "memory_usage", "temperature", "power_draw",
        "clock_rate", "utilization", "device_memory_used", "_compile_kernel", "get_device_handle", "host_memory_stats",
        "host_memory_stats_as_nested_dict", "memory_stats_as_nested_dict", "reset_peak_host_memory_stats",
        "reset_accumulated_host_memory_stats",
    ),
    torch.cuda.memory: ("_record_memory_history", "_snapshot", "_dump_snapshot"),
    torch.cuda.comm: _BETWEEN_DEVICES,
    torch.nn.parallel.comm: _BETWEEN_DEVICES,  # what torch.nn.DataParallel calls
    torch.cuda.nccl: ("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "init_rank", "unique_id"),
    torch.cuda.jiterator: ("_create_jit_fn", "_create_multi_output_jit_fn"),
    torch.cuda.gds: ("gds_register_buffer", "gds_deregister_buffer"),
}  # fmt: skip


def refuse(feature: str) -> NoReturn:
    """Raise the error that names what cannot be presented."""
    raise NotImplementedError(_text(feature))


def install() -> None:
    """Let each of these fail with that error."""
    for name in _CLASSES:
        given: Any = getattr(torch.cuda, name)
        given.__new__ = given.__init__ = _refusal(f"torch.cuda.{name}")
    for module, names in _FUNCTIONS.items():
        for name in names:
            setattr(module, name, _refusal(f"{module.__name__}.{name}"))
    sys.meta_path.insert(0, _NoTriton())


class _NoTriton(importlib.abc.MetaPathFinder):
    """Importing Triton fails; looking whether it is there is left alone, for many look and never use it."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname == "triton" and sys._getframe(2).f_code.co_name == "_find_and_load_unlocked":
            raise ModuleNotFoundError(_text("triton"), name="triton")


def _refusal(feature: str) -> Callable[..., NoReturn]:
    def refused(*_: Any, **__: Any) -> NoReturn:
        refuse(feature)

    return refused


def _text(feature: str) -> str:
    return (
        f"{feature} needs a real GPU and cannot be presented; "
        "run the program without it, or on a GPU with `devices.present_as: null`"
    )
