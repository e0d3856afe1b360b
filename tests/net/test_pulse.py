"""The pulse of a worker: silence is counted in beats, and a word begins the count again."""

from __future__ import annotations

import asyncio

from prism.net import pulse
from prism.net.pulse import Pulse, beat


async def test_silence_is_noticed() -> None:
    await Pulse(beat_s=0).stopped()


async def test_who_speaks_is_alive() -> None:
    """The heart beats in the listener's own turns, so as often as it is felt for."""
    felt, heart = 0, Pulse(beat_s=0)
    stopped = asyncio.ensure_future(heart.stopped())

    def say() -> None:
        nonlocal felt
        felt += 1
        heart.felt()

    beating = asyncio.ensure_future(beat(say, beat_s=0))
    while felt < 10 * pulse.BEATS_MISSED:
        await asyncio.sleep(0)
        assert not stopped.done()
    beating.cancel()
    await stopped
