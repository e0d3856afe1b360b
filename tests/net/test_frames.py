"""Frames on the line between a worker and its ranks: whole messages, however the bytes are cut."""

from __future__ import annotations

import pytest

from prism.core.instructions import AnyInstruction, Leave, Probe, Run
from prism.errors import ProtocolError
from prism.net.frames import Unpacker, pack
from prism.net.limits import MAX_WHOLE

MESSAGES = [Run(rank=1), Probe(rank=2, cause=7), Leave(rank=300)]


@pytest.mark.parametrize("cut", [1, 2, 3, 5, 1000])
def test_messages_come_whole_however_they_are_cut(cut: int) -> None:
    data = b"".join(pack(message) for message in MESSAGES)
    frames: Unpacker[AnyInstruction] = Unpacker(AnyInstruction)
    pieces = [data[at : at + cut] for at in range(0, len(data), cut)]
    assert [message for piece in pieces for message in frames.feed(piece)] == MESSAGES


def test_a_tail_waits_for_its_rest() -> None:
    frames: Unpacker[AnyInstruction] = Unpacker(AnyInstruction)
    data = pack(MESSAGES[0]) + pack(MESSAGES[1])
    assert list(frames.feed(data[:-1])) == MESSAGES[:1]
    assert list(frames.feed(data[-1:])) == MESSAGES[1:2]


def test_a_frame_that_is_no_message_is_refused() -> None:
    frames: Unpacker[AnyInstruction] = Unpacker(AnyInstruction)
    with pytest.raises(ProtocolError, match="a frame of 3 bytes is no message"):
        list(frames.feed(b"\x03\x00\x00\x00abc"))


def test_a_frame_that_is_too_long_is_refused_before_it_is_read() -> None:
    frames: Unpacker[AnyInstruction] = Unpacker(AnyInstruction)
    with pytest.raises(ProtocolError, match=f"{MAX_WHOLE} is the most"):
        list(frames.feed((MAX_WHOLE + 1).to_bytes(4, "little")))
