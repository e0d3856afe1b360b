"""Runs a program whose time passes in its sleeps only: virtual_time.py SCRIPT [ARGS...].

A sleep takes no time; it moves the monotonic clock of its process on by exactly what it was asked for, in whole ns. So
what PRISM measures of a rank is what the program says, and its prediction can be held against arithmetic.
"""

import runpy
import sys
import time
from pathlib import Path

now = time.monotonic_ns()


def sleep(seconds):
    global now
    now += round(seconds * 1e9)


time.sleep = sleep
time.monotonic_ns = lambda: now
del sys.argv[0]
sys.path[0] = str(Path(sys.argv[0]).parent)
runpy.run_path(sys.argv[0], run_name="__main__")
