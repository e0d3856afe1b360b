"""Tensors that claim to be on a GPU: how they are made, moved, and what they say of themselves."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.serialization
import torch.utils._device

from prism.gpu.presented.placement import CPU, Placement

_LIKE = ("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like", "normal")
_NEW = ("new_empty", "new_zeros", "new_ones", "new_full", "new_tensor", "new_empty_strided")
_KINDS = ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool")
_PLAIN = (torch.Tensor, torch.nn.Parameter)


def install(placement: Placement) -> None:
    """Replace what makes, moves and describes tensors."""
    for space, name in _factories():
        setattr(space, name, _placed(getattr(space, name), placement))
    # The wrapper around a DTensor's shard must be where the shard is.
    wrapper = _placed(torch.Tensor._make_wrapper_subclass, placement)
    torch.Tensor._make_wrapper_subclass = staticmethod(wrapper)  # type: ignore[method-assign]
    _Moves(placement).install()
    _Claims(placement).install()
    for kind in _KINDS:
        setattr(torch.cuda, f"{kind}Tensor", getattr(torch, f"{kind}Tensor"))
    _install_contexts(placement)
    _install_storages(placement)


def _factories() -> Iterator[tuple[Any, str]]:
    """All functions that take a `device`, by what holds them and their names."""
    for constructor in torch.utils._device._device_constructors():
        name = getattr(constructor, "__name__", "")
        for space in (torch, torch.fft, torch.nested):
            if getattr(space, name, None) is constructor:
                yield space, name
    yield from ((torch, name) for name in _LIKE)
    yield from ((torch.Tensor, name) for name in _NEW)


def _placed(function: Callable[..., Any], placement: Placement) -> Callable[..., Any]:
    """The function, with tensors for a GPU made on the CPU, and those for the host marked."""

    @functools.wraps(function)
    def place(*args: Any, **kwargs: Any) -> Any:
        pinned = kwargs.pop("pin_memory", False)
        device = kwargs.get("device")
        if device is not None:
            kwargs["device"] = placement.actual(device)
        to_host = pinned or placement.is_host(device)
        result = placement.call(function, *args, **kwargs)
        return _on_host(result) if to_host else result

    return place


class _Moves:
    """`to`, `cuda` and `cpu`: a move makes a copy, as it would between a GPU and its host."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._to = torch.Tensor.to
        self._type = torch.Tensor.type

    def install(self) -> None:
        """Take the methods' places."""
        tensor: Any = torch.Tensor
        tensor.to = lambda given, *args, **kwargs: self.to(given, *args, **kwargs)
        tensor.cuda = lambda given, device=None, non_blocking=False, **kwargs: self.move(
            given, "cuda" if device is None else device, **kwargs
        )
        tensor.cpu = lambda given, **kwargs: self.move(given, CPU, **kwargs)
        tensor.pin_memory = lambda given, device=None: self.move(given, CPU)
        tensor.type = lambda given, *args, **kwargs: self.type(given, *args, **kwargs)

    def to(self, given: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        """torch's: a device, a dtype or another tensor may come first."""
        other = kwargs.pop("other", args[0] if args else None)
        if isinstance(other, torch.Tensor):
            return self.move(given, other.device, other.dtype, *args[1:], **kwargs)
        device = kwargs.pop("device", None)
        if device is None and args and not isinstance(args[0], torch.dtype):
            device, *args = args  # type: ignore[assignment]
        if device is None:
            return self._to(given, *args, **kwargs)
        return self.move(given, device, *args, **kwargs)

    def move(self, given: torch.Tensor, device: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        """The tensor on the device; itself where it is there already and nothing else changes."""
        target, to_host = self._placement.actual(device), self._placement.is_host(device)
        if target.type == "cpu" and to_host != _said_host(given):
            args, kwargs["copy"] = args[:2], True  # `copy` is the third
        moved: torch.Tensor = self._placement.call(self._to, given, target, *args, **kwargs)
        if to_host:
            _on_host(moved)
        return moved

    def type(self, given: torch.Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
        """torch's: the type's name, or the tensor as another type."""
        if dtype is None:
            name: str = self._type(given)
            return name.replace("torch.", "torch.cuda.", 1) if given.is_cuda else name
        if isinstance(dtype, str):
            dtype = dtype.replace("torch.cuda.", "torch.", 1)
        return self._type(given, dtype, non_blocking)


class _Claims:
    """What a tensor says when it is asked where it is."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._device: Any = torch.Tensor.device

    def install(self) -> None:
        """Take the attributes' places."""
        tensor: Any = torch.Tensor
        tensor.device = property(self.device)
        tensor.is_cuda = property(lambda given: given.device.type == "cuda")
        tensor.is_cpu = property(lambda given: given.device.type == "cpu")
        tensor.get_device = lambda given: -1 if given.device.index is None else given.device.index
        tensor.record_stream = lambda given, stream: None

    def device(self, given: torch.Tensor) -> torch.device:
        """The GPU, but for tensors of the host and of devices that hold no data."""
        device: torch.device = self._device.__get__(given)
        return self._placement.device if device.type == "cpu" and not _said_host(given) else device


def _install_contexts(placement: Placement) -> None:
    """`with torch.device("cuda")` and torch.set_default_device."""
    context: Any = torch.utils._device.DeviceContext
    begin = context.__init__

    def initialize(self: Any, device: Any) -> None:
        begin(self, device)
        self.device = placement.actual(self.device)

    context.__init__ = initialize


def _install_storages(placement: Placement) -> None:
    storage: Any = torch.storage._StorageBase
    storage.cuda = lambda given, *_, **__: given

    def restore(given: Any, location: str) -> Any:
        return given if location.startswith("cuda") and placement.actual(location) == CPU else None

    # torch.load asks by rising priority; CUDA's own answer has 20.
    torch.serialization.register_package(5, lambda given: None, restore)


def _on_host(given: Any) -> Any:
    """Mark the tensor's storage, which its views share."""
    if type(given) in _PLAIN:
        given.untyped_storage()._prism_host = True
    return given


def _said_host(given: torch.Tensor) -> bool:
    return type(given) in _PLAIN and hasattr(given.untyped_storage(), "_prism_host")
