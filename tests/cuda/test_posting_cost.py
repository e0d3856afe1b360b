"""What NCCL's calls hold the host for, on a real GPU; in a process of its own, as a rank is."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.gpu

PROGRAM = """
import json, torch
from prism.gpu.cuda.driver import Driver
driver = Driver()
torch.zeros(1, device="cuda")
begin, _ = driver.mark(driver.current(), timed=True), driver.sleep(2_000_000)
end = driver.mark(driver.current(), timed=True)
end.synchronize()
print("TOLD", json.dumps([driver.posting_cost().told(), begin.elapsed_time(end), torch.cuda.memory_allocated()]))
"""


def test_it_is_measured_and_leaves_nothing_behind() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=120)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("TOLD ")]
    cost, slept_ms, left = json.loads(line.removeprefix("TOLD "))
    assert list(cost) == ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "wait"]
    assert min(cost.values()) > 0
    assert slept_ms > 0
    assert left == 0
