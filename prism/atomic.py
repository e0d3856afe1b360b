"""Files that appear whole or stay as they were, even in a crash or on a full disk."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from prism.exhaustion import room_in


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Where to write what becomes the file when the block is left; raises Exhausted if there is no room for it."""
    part = path.with_name(path.name + ".part")
    try:
        with room_in(path.parent):
            yield part
            with part.open("rb") as file:
                os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_private(path: Path, data: bytes | memoryview) -> None:
    """Write a file that nobody else can read."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)


def write_whole(path: Path, pieces: Iterable[bytes]) -> None:
    """Write the pieces as the file; raises Exhausted, naming the room that it takes, where there is not enough."""
    pieces, size = iter(pieces), 0
    with whole(path) as part, part.open("wb", buffering=0) as file:
        for piece in pieces:
            size += len(piece)
            try:
                _write(file.fileno(), piece)
            except OSError:
                size += sum(len(rest) for rest in pieces)
                with room_in(path.parent, size):
                    raise


def _write(descriptor: int, piece: bytes) -> None:
    rest = memoryview(piece)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
