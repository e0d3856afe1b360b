"""Hearing what a program does with streams and events: torch's own classes tell, for good, and do as before."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from prism.gpu.group.side_streams import SideStreams


def watch(streams: SideStreams) -> None:
    """Let `streams` hear of all that the program's streams and its host wait for; not of events that are PRISM's.

    What the program waits for is told before the wait begins, and that it goes on once it is over or in its stream.
    """
    cuda: Any = torch.cuda
    event = cuda.Event
    record, wait = event.record, event.wait

    @functools.wraps(record)
    def recorded(self: Any, stream: Any = None) -> Any:
        result = record(self, stream)
        if not is_ours(self):
            streams.recorded(self, stream if stream is not None else torch.cuda.current_stream())
        return result

    @functools.wraps(wait)
    def held(self: Any, stream: Any = None) -> Any:
        joins = not is_ours(self) and streams.held(stream if stream is not None else torch.cuda.current_stream(), self)
        result = wait(self, stream)
        if joins:
            streams.resume()
        return result

    event.record, event.wait = recorded, held
    for kind in (event, cuda.Stream):
        kind.synchronize = _heard(kind.synchronize, streams)
    cuda.synchronize = _all_heard(cuda.synchronize, streams)


def _heard(synchronize: Callable[[Any], Any], streams: SideStreams) -> Callable[[Any], Any]:
    """Of an event or a stream, for which the host waits."""

    @functools.wraps(synchronize)
    def heard(self: Any) -> Any:
        joins = not is_ours(self) and streams.awaited(self)
        result = synchronize(self)
        if joins:
            streams.resume()
        return result

    return heard


def _all_heard(synchronize: Callable[[Any], Any], streams: SideStreams) -> Callable[[Any], Any]:
    """Of all streams of a device."""

    @functools.wraps(synchronize)
    def heard(device: Any = None) -> Any:
        joins = streams.awaited()
        result = synchronize(device)
        if joins:
            streams.resume()
        return result

    return heard


def is_ours(waited_for: Any) -> bool:
    """Whether PRISM has made an event, which the program does not know; no stream is."""
    return getattr(waited_for, "of_prism", False)
