"""Dataclasses of numpy arrays as files, one a column, that every process of a host maps instead of copying.

Plain fields go beside them as msgpack. Nothing is ever unpickled.
"""

from __future__ import annotations

import io
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from prism.atomic import write_private

T = TypeVar("T")


def save_columns(directory: Path, columns: Any) -> None:
    """Write a dataclass whose fields are arrays, or what msgpack holds, into a directory of its own."""
    directory.mkdir(mode=0o700)
    plain = {}
    for field in fields(columns):
        value = getattr(columns, field.name)
        if isinstance(value, np.ndarray):
            npy = io.BytesIO()  # numpy's own writing to files does not say why it cannot
            np.save(npy, value, allow_pickle=False)
            write_private(directory / f"{field.name}.npy", npy.getbuffer())
        else:
            plain[field.name] = value
    write_private(directory / "plain.msgpack", msgspec.msgpack.encode(plain))


def load_columns(directory: Path, kind: type[T]) -> T:
    """The dataclass, its arrays mapped and read-only; tuples come back as tuples. Raises OSError."""
    plain = msgspec.msgpack.decode((directory / "plain.msgpack").read_bytes())
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in plain.items()}
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name not in values:
            values[field.name] = np.load(directory / f"{field.name}.npy", mmap_mode="r", allow_pickle=False)
    return kind(**values)
