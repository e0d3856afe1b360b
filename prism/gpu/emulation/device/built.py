"""Where the library of the engine on a device is, apart from what it needs: who asks need not import torch."""

from __future__ import annotations

import importlib.machinery
from pathlib import Path


def library_path() -> Path | None:
    """The library that sandbox ranks preload; None where it was not built."""
    folder = Path(__file__).parents[2]
    found = (folder / f"_device{suffix}" for suffix in importlib.machinery.EXTENSION_SUFFIXES)
    return next((path for path in found if path.exists()), None)
