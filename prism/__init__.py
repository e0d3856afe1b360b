"""PRISM: debug and predict thousand-rank training jobs with the few devices you have."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prism.coordinator import Coordinator as Coordinator
    from prism.scenario import Scenario as Scenario

__version__ = "0.1.0"

# Lazy, so that importing prism.core never pulls in asyncio, zmq or torch.
_HOMES = {"Coordinator": "prism.coordinator", "Scenario": "prism.scenario"}
__all__ = ["Coordinator", "Scenario", "__version__"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'prism' has no attribute {name!r}")
