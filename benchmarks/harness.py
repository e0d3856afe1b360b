"""What a test with `prism_world` takes: 64 ranks of a tensor-parallel layer, and a pipeline of 4 that deadlocks.

    python -m benchmarks.harness

A process of tests starts one crew, which imports torch, and all its tests use it; so each case here is a process that
first runs two ranks that do nothing. Seconds by the clock of the case alone, and of CPU of the whole process tree,
without those of a process that does nothing else: on a machine that does other things only the latter mean anything.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import pytest

from prism.testing import RanksFailed, Worlds
from tests.testing.test_pipeline import everyone_receives_first
from tests.testing.test_tensor_parallel import forward_in_parallel


def nothing() -> None:
    """What a rank costs by itself."""


def tensor_parallel(worlds: Worlds) -> None:
    """The test of 64 ranks."""
    assert len(worlds.run(forward_in_parallel, size=64)) == 64


def deadlock(worlds: Worlds) -> None:
    """The test that fails."""
    with pytest.raises(RanksFailed, match="deadlock"):
        worlds.run(everyone_receives_first, size=4)


CASES = {"start": lambda _: None, "tensor-parallel": tensor_parallel, "deadlock": deadlock}


def run(case: str) -> None:
    """One case; prints its seconds by the clock."""
    with Worlds() as worlds:
        worlds.run(nothing, size=2)
        began = time.monotonic()
        CASES[case](worlds)
        print(time.monotonic() - began)


def measured(case: str) -> tuple[float, float]:
    """Seconds by the clock, and of CPU, start included."""
    before = _cpu()
    done = subprocess.run([sys.executable, "-m", "benchmarks.harness", case], check=True, stdout=subprocess.PIPE)
    return float(done.stdout), _cpu() - before


def _cpu() -> float:
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


def main() -> None:
    """Print the table."""
    _, start = measured("start")
    print(f"a crew and two ranks that do nothing: {start:.1f} s of CPU")
    print(f"{'case':<18} {'clock':>8} {'CPU':>8}")
    for case in ("tensor-parallel", "deadlock"):
        clock, cpu = measured(case)
        print(f"{case:<18} {clock:6.2f} s {cpu - start:6.2f} s", flush=True)


if __name__ == "__main__":
    run(sys.argv[1]) if len(sys.argv) > 1 else main()
