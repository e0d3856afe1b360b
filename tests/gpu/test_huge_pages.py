"""Huge pages under what forks share: which memory they go under, and that nothing in it changes."""

from __future__ import annotations

import subprocess
import sys
import textwrap

from prism.gpu.processes.huge_pages import SIZE, ranges

MAPS = f"""\
55d000000000-55d000100000 r--p 00000000 08:01 1 /usr/bin/python3
55d100001000-55d100601000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0000400000 rw-p 00000000 00:00 0
7f0001000000-7f0001{SIZE - 4096:06x} rw-p 00000000 00:00 0
7f0002000000-7f0002400000 rw-p 00001000 08:01 7 /usr/lib/libtorch.so
7f0003000000-7f0003400000 rw-s 00000000 00:01 9 /dev/shm/shared
7f0004000000-7f0004400000 r-xp 00000000 00:00 0
7ffd00000000-7ffd00400000 rw-p 00000000 00:00 0 [stack]
"""


def test_only_private_memory_that_holds_whole_huge_pages_is_taken() -> None:
    assert list(ranges(MAPS)) == [(0x55D100200000, 0x55D100600000), (0x7F0000000000, 0x7F0000400000)]


def test_memory_is_the_same_before_and_after_and_in_a_fork() -> None:
    program = """
        import os
        from prism.gpu.processes.huge_pages import collapse

        data = bytearray(os.urandom(1 << 16) * 256)
        before = hash(bytes(data))
        collapse()
        assert hash(bytes(data)) == before
        child = os.fork()
        if child == 0:
            data[12345] ^= 1
            os._exit(hash(bytes(data)) == before)
        assert os.waitpid(child, 0)[1] == 0
        assert hash(bytes(data)) == before
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)
