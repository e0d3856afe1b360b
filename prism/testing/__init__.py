"""N ranks inside a test: the pytest fixture `prism_world`, and `Worlds` for other harnesses."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prism.testing.failure import RanksFailed as RanksFailed
    from prism.testing.worlds import Ranks as Ranks
    from prism.testing.worlds import Worlds as Worlds

__all__ = ["Ranks", "RanksFailed", "Worlds"]


def __getattr__(name: str) -> Any:
    if name in __all__:  # lazy: ranks import this package too, and need nothing of the coordinator
        return getattr(import_module("prism.testing.worlds"), name)
    raise AttributeError(f"module 'prism.testing' has no attribute {name!r}")
