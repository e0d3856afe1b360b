"""What a broken worker says when a stage is over: it is refused with the worker's name, and writes nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from prism.crew.spreading import take_in
from prism.errors import ProtocolError
from prism.net.board import Board
from prism.net.messages import Dismiss, Dismissed, FromWorker, Laid, Prepared, Printed
from tests.test_attendance import Meeting, setup

CELLS = np.arange(7, dtype="<i8").tobytes()


@pytest.mark.parametrize(
    "piece",
    [
        Laid(file="schedule/plain.msgpack", data=CELLS),
        Laid(file="../board", data=CELLS),
        Laid(file="board\0", data=CELLS),
        Laid(file="board", at=-8, data=CELLS),
        Laid(file="board", at=1 << 62, data=CELLS),
        Laid(file="board", at=4, data=CELLS[:8]),
        Laid(file="board", data=CELLS[:-1]),
        Laid(file="board", at=8, data=CELLS),
    ],
    ids=repr,
)
def test_only_cells_of_the_board_are_taken_in(piece: Laid, tmp_path: Path) -> None:
    board = Board(tmp_path / "board", 1, 0, create=True)
    (tmp_path / "schedule").mkdir()
    (tmp_path / "schedule" / "plain.msgpack").write_bytes(b"as it was")
    with pytest.raises(ProtocolError, match="are no cells of the emulation's board"):
        take_in(tmp_path, piece)
    assert not board.cells.any()
    assert (tmp_path / "schedule" / "plain.msgpack").read_bytes() == b"as it was"


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (Laid(file="board", data=CELLS), r"w: bytes 0 to 56 of 'board' are no cells of the emulation's board"),
        (Printed(file="../0.log", at=0, data=b"x"), r"w: bytes from 0 on of '../0.log' are nothing that a rank has"),
        (Printed(file="0.log\0", at=0, data=b"x"), r"w: .* are nothing that a rank has printed"),
        (Printed(file="0." + "x" * 300, at=0, data=b"x"), r"w: .* are nothing that a rank has printed"),
        (Printed(file="0.log", at=-1, data=b"x"), r"w: bytes from -1 on of '0.log' are nothing that a rank has"),
        (Printed(file="0.log", at=1 << 63, data=b"x"), r"w: .* are nothing that a rank has printed"),
        (Printed(file="", at=0, data=b"x"), r"w: .* are nothing that a rank has printed"),
    ],
)
async def test_what_cannot_be_of_the_stage_is_told_with_whose_it_is(
    message: FromWorker, told: str, tmp_path: Path
) -> None:
    meeting = Meeting(tmp_path, workers=1)
    worker = await meeting.come("w")
    crew = await meeting.entering
    logs = tmp_path / "logs"
    logs.mkdir()
    try:
        preparing = asyncio.ensure_future(crew.prepare(setup(logs)))
        worker.channel.send(Prepared())
        await preparing
        dismissing = asyncio.ensure_future(crew.dismiss())
        await worker.hear(Dismiss)
        worker.channel.send(message)
        worker.channel.send(Dismissed())
        with pytest.raises(ProtocolError, match=told):
            await dismissing
        assert list(logs.iterdir()) == []
    finally:
        await asyncio.gather(crew.__aexit__(), worker.channel.close())
