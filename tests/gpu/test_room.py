"""Ranks that ask for room on the device, and what keeps their memory where it is."""

from __future__ import annotations

import asyncio
import socket
import struct
from pathlib import Path

import pytest

from prism.core.events import Pressed
from prism.gpu.cuda.residency import passes_by
from prism.gpu.processes.room import Rooms, room_socket


async def test_a_question_is_told_and_answered_however_its_bytes_are_cut(tmp_path: Path) -> None:
    asked: asyncio.Queue[Pressed] = asyncio.Queue()
    rooms = Rooms(asked.put_nowait, {3, 4}.__contains__)
    path = room_socket(tmp_path / "worker.sock")
    server = await asyncio.get_running_loop().create_unix_server(rooms.line, path=str(path))
    reader, writer = await asyncio.open_unix_connection(str(path))
    question = struct.pack("=QQQQ", 3, 1 << 33, 5, 0) + struct.pack("=QQQ", 7, 8, 1)
    for cut in (question[:11], question[11:30], question[30:]):
        writer.write(cut)
        await writer.drain()
    assert await asked.get() == Pressed(rank=3, nbytes=1 << 33, free=5)
    assert await asked.get() == Pressed(rank=3, nbytes=7, free=8, device=1)
    rooms.answer(3, True)
    rooms.answer(4, True)  # never there
    rooms.answer(3, False)
    assert await reader.readexactly(2) == b"\1\0"
    writer.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
    writer.close()
    server.close()


async def test_who_is_no_rank_of_the_stage_is_hung_up_on(tmp_path: Path) -> None:
    asked: list[Pressed] = []
    rooms = Rooms(asked.append, {3}.__contains__)
    path = room_socket(tmp_path / "worker.sock")
    server = await asyncio.get_running_loop().create_unix_server(rooms.line, path=str(path))
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(struct.pack("=QQQQ", 4, 1, 1, 0))
    assert await reader.read() == b""
    assert asked == []
    writer.close()
    server.close()


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({}, None),
        ({"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:128"}, None),
        ({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments: True"}, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments: True"),
        ({"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}, "PYTORCH_ALLOC_CONF=backend:cudaMallocAsync"),
    ],
)
def test_allocators_that_go_past_cudamalloc_are_named(environment: dict[str, str], told: str | None) -> None:
    assert passes_by(environment) == told
