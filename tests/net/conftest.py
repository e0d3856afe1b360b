"""The tests of the net run on both event loops that PRISM supports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

GUARD_S = 60.0
"""When a test that waits for what never comes is cancelled; no test depends on its value."""


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def guard() -> AsyncIterator[None]:
    def expire() -> None:
        for task in asyncio.all_tasks():
            task.cancel("the test waits for what never comes")

    handle = asyncio.get_running_loop().call_later(GUARD_S, expire)
    yield
    handle.cancel()
