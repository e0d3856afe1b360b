"""Operations for which a stream beside the program's own waits: they hold that stream, and not what is computed.

A program may communicate in a stream that it keeps for that, as FSDP2 does, and let the stream in which it computes
wait for an event of it later. What is recorded as the program's wait is that: where its own stream waits for something
that stands behind the operation, at the latest the end of the iteration. How streams depend on each other is seen where
Python says it, in torch.cuda's streams and events (prism.gpu.group.stream_calls).

The program's own stream is the one in which its last iteration ended. Before the first one has ended there is none to
be beside, and all that waits is the program.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import torch

Key = tuple[int, int]
"""A stream: its device, and its number there."""

BEHIND = "_behind_of_prism"
"""The attribute of an event that tells which operations it stands behind.

It is the event's own: torch does not clear weak references to an event that goes, and who follows one then crashes.
"""


class Waiting(Protocol):
    """The line of a rank, as far as it is needed here."""

    def wait(self, handles: tuple[int, ...]) -> bool:
        """Wait for operations."""

    def resume(self) -> None:
        """What follows is the program's own time again."""

    def is_program(self) -> bool:
        """Whether this thread is the program's."""


class SideStreams:
    """What streams have waited for that the program's own has not."""

    def __init__(self, link: Waiting) -> None:
        self._link = link
        self._own: Any = None
        self._open: dict[int, None] = {}  # operations that only streams beside it have waited for, in order
        self._over: set[int] = set()  # those that it has waited for in this iteration
        self._before: dict[Key, frozenset[int]] = {}  # those that a stream has waited for

    def own(self) -> Any:
        """The program's own stream, where the current one is another; else None."""
        return None if self._own is None or self._is_own(key_of(torch.cuda.current_stream())) else self._own

    def take(self, handles: tuple[int, ...]) -> bool:
        """The current stream waits for operations; returns whether it is one beside the program's own."""
        if self._own is None or torch.cuda.is_current_stream_capturing():
            return False
        stream = key_of(torch.cuda.current_stream())
        if self._is_own(stream):
            self._over.update(handles)
            for handle in handles:
                self._open.pop(handle, None)
            return False
        left = [handle for handle in handles if handle not in self._over]
        self._open |= dict.fromkeys(left)
        self._hold(stream, left)
        return True

    def recorded(self, event: Any, stream: Any) -> None:
        """An event stands in a stream now."""
        if self._open and self._link.is_program():
            setattr(event, BEHIND, self._before.get(key_of(stream), frozenset()))

    def held(self, stream: Any, event: Any) -> bool:
        """A stream is about to wait for an event; returns whether the program waits by that."""
        if not self._open or not self._link.is_program():
            return False
        behind = _behind(event) & self._open.keys()
        if not behind:
            return False
        if self._is_own(key_of(stream)):
            return self._join(behind)
        self._hold(key_of(stream), behind)
        return False

    def awaited(self, what: Any = None) -> bool:
        """The host is about to wait for an event, or a stream, or all streams; returns whether it waits for operations.

        Whatever is computed next comes after.
        """
        if not self._open or not self._link.is_program():
            return False
        if what is None:
            return self._join(self._open)
        is_event = not hasattr(what, "stream_id")
        return self._join(_behind(what) if is_event else self._before.get(key_of(what), ()))

    def settle(self) -> None:
        """An iteration ends: nothing outlasts it, and the current stream is the program's own."""
        self._join(self._open)
        for kept in (self._open, self._over, self._before):
            kept.clear()
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            self._own = torch.cuda.current_stream()

    def resume(self) -> None:
        """The wait that the program was said to be in is over, or in its stream."""
        with torch.cuda.stream(self._own):
            self._link.resume()

    def _is_own(self, stream: Key) -> bool:
        return self._own is not None and stream == key_of(self._own)

    def _hold(self, stream: Key, handles: Iterable[int]) -> None:
        self._before[stream] = self._before.get(stream, frozenset()) & self._open.keys() | frozenset(handles)

    def _join(self, handles: Iterable[int]) -> bool:
        """The program's own stream waits for them."""
        chosen = set(handles)
        joined = tuple(handle for handle in self._open if handle in chosen)
        if not joined:
            return False
        for handle in joined:
            del self._open[handle]
        self._over.update(joined)
        with torch.cuda.stream(self._own):
            self._link.wait(joined)
        return True


def key_of(stream: Any) -> Key:
    """Which stream it is, whatever object stands for it."""
    return stream.device_index, stream.stream_id


def _behind(event: Any) -> frozenset[int]:
    """What an event stands behind; of what is over by now, too."""
    behind: frozenset[int] = getattr(event, BEHIND, frozenset())
    return behind
