"""The host pool lies in huge pages where it can, and where it cannot there is no trace of the attempt."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from prism.gpu.cuda.pool_file import NAME, PoolFile

SIZE = 8 << 20
HUGE = """
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.ftruncate(file, int(sys.argv[2]))
memory = mmap.mmap(file, int(sys.argv[2]))
memory.madvise(mmap.MADV_HUGEPAGE)
memory[:] = b"x" * len(memory)
lines = open("/proc/self/smaps_rollup").read().splitlines()
print(*(line.split()[1] for line in lines if line.startswith("ShmemPmdMapped:")))
"""
UNPRIVILEGED = """
import os, sys, pathlib
from prism.gpu.cuda.pool_file import PoolFile
if os.geteuid() == 0:
    os.setgroups([])
    os.setresuid(65534, 65534, 65534)
before = os.listdir("/proc/self/fd")
file = PoolFile(pathlib.Path(sys.argv[1]))
print(file.huge, os.path.lexists(sys.argv[1]), os.listdir("/proc/self/fd") == before)
"""


@pytest.fixture
def pool(tmp_path: Path) -> PoolFile:
    """A pool's file, where one can be made."""
    file = PoolFile(tmp_path / NAME)
    if not file.huge:
        pytest.skip("this process may not mount")
    return file


def run(text: str, *arguments: object) -> str:
    """What a Python program prints."""
    command = [sys.executable, "-c", text, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_other_processes_share_it_in_huge_pages(pool: PoolFile, tmp_path: Path) -> None:
    mounts = Path("/proc/self/mounts").read_text()
    assert int(run(HUGE, tmp_path / NAME, SIZE)) << 10 == SIZE
    with (tmp_path / NAME).open("r+b") as file:
        assert file.read() == b"x" * SIZE, "it is the same file"
        memory = mmap.mmap(file.fileno(), SIZE)
    pool.close()
    assert not os.path.lexists(tmp_path / NAME)
    memory[0] = 0  # who has it keeps it
    assert Path("/proc/self/mounts").read_text() == mounts


def test_who_may_not_mount_leaves_it_to_the_ranks(tmp_path: Path) -> None:
    assert run(UNPRIVILEGED, tmp_path / NAME) == "False False True"
