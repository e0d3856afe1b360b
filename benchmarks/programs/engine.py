"""Times all_reduce of the pruned engine between two adjacent sandbox members: `python engine.py ELEMENTS REPETITIONS`.

Prints `TIME <elements> <microseconds>`, the median of the first member's repetitions; the second is a child.
"""

import os
import statistics
import sys
import tempfile
import time

import numpy as np

from prism.core.graph import OpKind
from prism.gpu.pruned import Member, Op


def times(directory: str, rank: int, elements: int, repetitions: int) -> list[float]:
    """Seconds of each all_reduce, after a barrier."""
    data = np.zeros(elements, np.float32)
    op, barrier, result = Op(OpKind.ALL_REDUCE, 2, "float32", "sum", count=elements), Op(OpKind.BARRIER, 2), []
    with Member(directory, "engine", 2, (0, 1), rank) as member:
        for _ in range(repetitions + 2):
            member.run(barrier)
            start = time.perf_counter()
            member.run(op, data.ctypes.data, data.ctypes.data)
            result.append(time.perf_counter() - start)
    return result[2:]


def main() -> None:
    """Run both members."""
    elements, repetitions = int(sys.argv[1]), int(sys.argv[2])
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        child = os.fork()
        taken = times(directory, int(child == 0), elements, repetitions)
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    print(f"TIME {elements} {1e6 * statistics.median(taken):.1f}")


if __name__ == "__main__":
    main()
