"""Times steps of the pruned engine's ring: `python steps.py MEMBERS PAIRS REPETITIONS`.

Each pair is one sandbox member of so many and the virtual ones, in two processes. All pairs run small all_reduces at
one time; nothing is paced. Prints `STEP <members> <wall us> <cpu us>` a step of a pair, and `PIPE <us>`, a byte's way
to another process and back.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np

from prism.core.graph import OpKind
from prism.gpu.pruned import Arc, Contribution, Member, Op


def play(directory: str, pair: int, real: bool, op: Op, repetitions: int) -> None:
    """One party's part in all operations."""
    who = (directory, f"pair{pair}", op.size, (0,), 0)
    if real:
        data = np.zeros(op.count, np.float32)
        with Member(*who) as member:
            for _ in range(repetitions):
                member.run(op, data.ctypes.data, data.ctypes.data)
        return
    with Arc(*who) as arc:
        for _ in range(repetitions):
            arc.run(op, Contribution.zeros())


def timed(parts: list[Callable[[], None]]) -> tuple[float, float]:
    """Wall and CPU seconds of some parts, a process each."""
    start, before = time.perf_counter(), os.times()
    children = []
    for part in parts:
        child = os.fork()
        if child == 0:
            part()
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - start, cpu


def pipe(rounds: int) -> float:
    """Seconds of a round trip."""
    (there_out, there_in), (back_out, back_in) = os.pipe(), os.pipe()

    def answer() -> None:
        for _ in range(rounds):
            os.write(back_in, os.read(there_out, 1))

    def ask() -> None:
        for _ in range(rounds):
            os.write(there_in, b"x")
            os.read(back_out, 1)

    return timed([answer, ask])[0] / rounds


def main() -> None:
    """Run all pairs."""
    members, pairs, repetitions = (int(argument) for argument in sys.argv[1:])
    op = Op(OpKind.ALL_REDUCE, members, "float32", "sum", count=16 * members)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        parts = [
            lambda pair=pair, real=real: play(directory, pair, real, op, repetitions)
            for pair in range(pairs)
            for real in (True, False)
        ]
        wall, cpu = timed(parts)
    steps = repetitions * 2 * (members - 1)
    print(f"STEP {members} {1e6 * wall / steps:.2f} {1e6 * cpu / steps / pairs:.2f}")
    print(f"PIPE {1e6 * pipe(3000):.2f}")


if __name__ == "__main__":
    main()
