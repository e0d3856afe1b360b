"""A rank whose log cannot take another byte, for its disk is full, tells the run all the same."""

from __future__ import annotations

import errno
import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from prism.core.events import Broke
from prism.exhaustion import Exhausted, room_in
from prism.gpu.emulation import sandbox
from prism.gpu.rank.link import Link


class Full(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_when_a_result_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "stderr", Full())
    told: list[Any] = []

    with pytest.raises(Exhausted) as full, room_in(tmp_path, 400):
        raise OSError(errno.ENOSPC, "No space left on device")
    link: Any = SimpleNamespace(rank=3, tell=told.append)
    with pytest.raises(OSError, match="No space left"):
        Link._broke_off(link, full.value)
    assert [event.rank for event in told if isinstance(event, Broke)] == [3]
    assert told[0].reason.startswith(f"{tmp_path}: No space left on device: 400 bytes are needed, ")


def test_when_the_engine_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Full())
    told: list[Any] = []
    link: Any = SimpleNamespace(rank=3, tell=told.append)
    with pytest.raises(OSError, match="No space left"):
        sandbox.SandboxLink.fail(link, Exhausted("no room"))
    assert told == [Broke(rank=3, reason="Exhausted: no room")]
