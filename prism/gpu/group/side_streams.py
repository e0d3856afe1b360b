"""Operations for which a stream beside the program's own waits: they hold that stream, and not what is computed.

A program may communicate in a stream that it keeps for that, as FSDP2 does, and let the stream in which it computes
wait for an event of it later. What is recorded as the program's wait is that: where its own stream waits for something
that stands behind the operation, at the latest the end of the iteration. How streams depend on each other is seen where
Python says it, in torch.cuda's streams and events.

The program's own stream is the one in which its last iteration ended; at first the default one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import torch

Key = tuple[int, int]
"""A stream: its device, and its handle there."""

DEFAULT = 0
"""The handle of a device's default stream."""


class Waiting(Protocol):
    """The line of a rank, as far as it is needed here."""

    def wait(self, handles: tuple[int, ...]) -> None:
        """Wait for operations."""

    def is_program(self) -> bool:
        """Whether this thread is the program's."""


class SideStreams:
    """What streams have waited for that the program's own has not."""

    def __init__(self, link: Waiting) -> None:
        self._link = link
        self._own: Any = None  # None: the default one of whatever device
        self._open: dict[int, None] = {}  # operations that only streams beside it have waited for, in order
        # Which of them a stream has waited for, and which an event stands behind.
        self._before: dict[Key, frozenset[int]] = {}
        self._behind: WeakKeyDictionary[Any, frozenset[int]] = WeakKeyDictionary()

    def own(self) -> Any:
        """The program's own stream, where the current one is another; else None."""
        if not _in_use() or self._is_own(key_of(torch.cuda.current_stream())):
            return None
        return self._own if self._own is not None else torch.cuda.default_stream()

    def take(self, handles: tuple[int, ...]) -> bool:
        """The current stream waits for operations; returns whether it is one beside the program's own."""
        if not _in_use() or torch.cuda.is_current_stream_capturing():
            return False
        stream = key_of(torch.cuda.current_stream())
        if self._is_own(stream):
            return False
        self._open |= dict.fromkeys(handles)
        self._hold(stream, handles)
        return True

    def recorded(self, event: Any, stream: Any) -> None:
        """An event stands in a stream now."""
        if self._open:
            self._behind[event] = self._before.get(key_of(stream), frozenset())

    def held(self, stream: Any, event: Any) -> None:
        """A stream waits for an event."""
        behind = self._behind.get(event, frozenset()) & self._open.keys() if self._open else ()
        if not behind:
            return
        if self._is_own(key_of(stream)):
            self._join(behind)
        else:
            self._hold(key_of(stream), behind)

    def awaited(self, what: Any) -> None:
        """The host waits for an event, or for a stream: whatever is computed next comes after."""
        if self._open:
            is_event = not hasattr(what, "cuda_stream")
            self._join(self._behind.get(what, ()) if is_event else self._before.get(key_of(what), ()))

    def settle(self) -> None:
        """An iteration ends: nothing outlasts it, and the current stream is the program's own."""
        self._join(self._open)
        if _in_use():
            self._own = torch.cuda.current_stream()

    def _is_own(self, stream: Key) -> bool:
        return stream[1] == DEFAULT if self._own is None else stream == key_of(self._own)

    def _hold(self, stream: Key, handles: Iterable[int]) -> None:
        self._before[stream] = self._before.get(stream, frozenset()) & self._open.keys() | frozenset(handles)

    def _join(self, handles: Iterable[int]) -> None:
        """The program's own stream waits for them."""
        chosen = set(handles)
        joined = tuple(handle for handle in self._open if handle in chosen)
        if joined and self._link.is_program():
            for handle in joined:
                del self._open[handle]
            self._link.wait(joined)


def _in_use() -> bool:
    """Whether the program has used CUDA by now; asking for a stream must not make a context."""
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def key_of(stream: Any) -> Key:
    """Which stream it is, whatever object stands for it."""
    return stream.device_index, stream.cuda_stream


def watch(streams: SideStreams) -> None:
    """Let it hear what the program does with streams and events, for good; not of events that are PRISM's."""
    event: Any = torch.cuda.Event
    stream: Any = torch.cuda.Stream
    record, wait, synchronize = event.record, event.wait, event.synchronize

    @functools.wraps(record)
    def recorded(self: Any, of: Any = None) -> Any:
        result = record(self, of)
        if not is_ours(self):
            streams.recorded(self, of if of is not None else torch.cuda.current_stream())
        return result

    @functools.wraps(wait)
    def held(self: Any, stream: Any = None) -> Any:
        result = wait(self, stream)
        if not is_ours(self):
            streams.held(stream if stream is not None else torch.cuda.current_stream(), self)
        return result

    event.record, event.wait = recorded, held
    event.synchronize = _heard(synchronize, streams)
    stream.synchronize = _heard(stream.synchronize, streams)


def _heard(synchronize: Callable[[Any], Any], streams: SideStreams) -> Callable[[Any], Any]:
    @functools.wraps(synchronize)
    def heard(self: Any) -> Any:
        if not is_ours(self):
            streams.awaited(self)
        return synchronize(self)

    return heard


def is_ours(event: Any) -> bool:
    """Whether PRISM has made an event, which the program does not know."""
    return getattr(event, "of_prism", False)
