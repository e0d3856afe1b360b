"""The functions of torch.cuda that ask which devices there are, choose one, or wait for it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
import torch._dynamo
import torch.cuda.nvtx

from prism.core.devices import DeviceModel
from prism.gpu.presented.placement import Placement

CUDA_VERSION = "13.0"
CUDNN_VERSION = 91900
"""Those that torch 2.11's CUDA build comes with."""


@dataclass(frozen=True)
class Properties:
    """What torch.cuda.get_device_properties gives; sizes in bytes."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    L2_cache_size: int
    shared_memory_per_multiprocessor: int
    shared_memory_per_block_optin: int
    shared_memory_per_block: int = 48 * 1024
    regs_per_multiprocessor: int = 65536
    max_threads_per_multi_processor: int = 2048
    max_threads_per_block: int = 1024
    warp_size: int = 32
    is_integrated: int = 0
    is_multi_gpu_board: int = 0

    @property
    def gcnArchName(self) -> str:
        """On NVIDIA's devices the name."""
        return self.name


def properties(model: DeviceModel) -> Properties:
    """What torch says of a model."""
    return Properties(
        name=model.name,
        major=model.capability[0],
        minor=model.capability[1],
        total_memory=model.memory,
        multi_processor_count=model.multiprocessors,
        L2_cache_size=model.l2_cache,
        shared_memory_per_multiprocessor=model.shared_memory,
        shared_memory_per_block_optin=model.shared_memory - 1024,  # CUDA keeps 1 KiB of each block for itself
    )


class Runtime:
    """torch.cuda; each method is the function of that name."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._fraction = 1.0

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def init(self) -> None:
        """Nothing is left to do."""

    def _lazy_init(self) -> None:
        """Nothing is left to do."""

    def _lazy_call(self, callable: Callable[[], object], **_: Any) -> None:
        callable()

    def device_count(self) -> int:
        return self._placement.count

    def current_device(self) -> int:
        return self._placement.current

    def set_device(self, device: Any) -> None:
        self._placement.choose(device)

    def _exchange_device(self, device: int) -> int:
        return self._placement.choose(device)

    def _maybe_exchange_device(self, device: int) -> int:
        return self._placement.choose(device)

    def synchronize(self, device: Any = None) -> None:
        self._placement.index(device)

    def get_device_properties(self, device: Any = None) -> Properties:
        self._placement.index(device)
        return properties(self._placement.model)

    def get_device_name(self, device: Any = None) -> str:
        return self.get_device_properties(device).name

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        self._placement.index(device)
        return self._placement.model.capability

    def get_arch_list(self) -> list[str]:
        major, minor = self._placement.model.capability
        return [f"sm_{major}{minor}"]

    def get_gencode_flags(self) -> str:
        major, minor = self._placement.model.capability
        return f"-gencode compute=compute_{major}{minor},code=sm_{major}{minor}"

    def can_device_access_peer(self, device: Any, peer_device: Any) -> bool:
        return self._placement.index(device) != self._placement.index(peer_device)

    def is_bf16_supported(self, including_emulation: bool = True) -> bool:
        return True

    def is_tf32_supported(self) -> bool:
        return True

    def is_current_stream_capturing(self) -> bool:
        return False

    def get_sync_debug_mode(self) -> int:
        return 0

    def set_sync_debug_mode(self, debug_mode: int | str) -> None:
        """Every call synchronizes."""

    def get_per_process_memory_fraction(self, device: Any = None) -> float:
        return self._fraction

    def set_per_process_memory_fraction(self, fraction: float, device: Any = None) -> None:
        self._fraction = fraction

    def cudart(self) -> Any:
        """The calls that programs wrap round what they profile."""
        return SimpleNamespace(cudaProfilerStart=lambda: 0, cudaProfilerStop=lambda: 0)


def install(placement: Placement) -> None:
    """Replace the functions, and what torch's backends and its version say."""
    runtime, cuda = Runtime(placement), torch.cuda
    for name in vars(Runtime):
        if not name.startswith("__"):
            setattr(cuda, name, getattr(runtime, name))
    cuda._initialized = True
    cuda.has_half = True
    cuda.graphs.is_current_stream_capturing = cuda.is_current_stream_capturing
    torch.version.cuda = CUDA_VERSION
    torch._dynamo.config.disable = True  # it would compile for a GPU: functions of torch.compile run as they are
    _install_backends()
    _install_nvtx()
    _install_profiler()


def _install_backends() -> None:
    cudnn: Any = torch.backends.cudnn
    cudnn.is_available = lambda: True
    cudnn.version = lambda: CUDNN_VERSION
    cudnn.is_acceptable = lambda tensor: False  # else torch's recurrent layers lay their weights out for cuDNN


def _install_nvtx() -> None:
    @contextlib.contextmanager
    def named_range(message: str, *_: Any, **__: Any) -> Iterator[None]:
        yield

    nvtx: Any = torch.cuda.nvtx
    nvtx.range = named_range
    nvtx.range_push = lambda message: 0
    nvtx.range_pop = lambda: 0
    nvtx.range_start = lambda message: 0
    nvtx.range_end = lambda range_id: None
    nvtx.mark = lambda message: None


def _install_profiler() -> None:
    """A profile of the GPU shows the host's side only."""
    profile: Any = torch.autograd.profiler.profile
    begin = profile.__init__

    @functools.wraps(begin)
    def initialize(self: Any, *args: Any, use_device: str | None = None, **kwargs: Any) -> None:
        begin(self, *args, use_device=None if use_device == "cuda" else use_device, **kwargs)

    profile.__init__ = initialize
