"""Warnings once a source, and of a bounded number of sources."""

from __future__ import annotations

import logging

import pytest

from prism.net import log
from prism.net.log import LogOnce


def test_a_source_is_complained_about_once(caplog: pytest.LogCaptureFixture) -> None:
    once = LogOnce(logging.getLogger("test"))
    for source in ("a", "b", "a"):
        once.warn(source, "knocks")
    assert [message.partition(" (")[0] for message in caplog.messages] == ["a: knocks", "b: knocks"]


def test_who_names_himself_anew_each_time_does_not_fill_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "MOST", 3)
    once = LogOnce(logging.getLogger("test"))
    for number in range(10):
        once.warn(f"peer {number}", "knocks")
    assert len(caplog.messages) == 3
