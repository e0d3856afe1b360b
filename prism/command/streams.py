"""The command's standard streams, in whatever state they are left to it and whoever reads them."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec


class Streams:
    """Input, output and errors: they are there from now on, and show what has no letter in their encoding."""

    def __init__(self) -> None:
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            if getattr(sys, name) is None:  # closed: other files would get its number
                _lead_nowhere(number)
                setattr(sys, name, os.fdopen(number, "w" if number else "r"))
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        self._terminals = [number for number in range(3) if os.isatty(number)]

    def hang_up(self) -> None:
        """The terminal is gone: what is said to it leads nowhere, instead of failing."""
        for number in self._terminals:
            _lead_nowhere(number)


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Around what prints to standard output: who reads may have gone, as `head` does."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _lead_nowhere(sys.stdout.fileno())


def print_json(value: msgspec.Struct) -> None:
    """Print an object, indented."""
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def _lead_nowhere(number: int) -> None:
    opened = os.open(os.devnull, os.O_RDWR)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
