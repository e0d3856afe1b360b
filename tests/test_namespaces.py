"""Three hosts as network namespaces, with delay and loss between them: what one host gives, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.namespaces import possible
from benchmarks.three_hosts import run

PROGRAM = Path(__file__).with_name("jobs") / "job_moe.py"


@pytest.mark.slow
def test_three_hosts_give_what_one_gives(tmp_path: Path) -> None:
    if reason := possible():
        pytest.skip(reason)
    scenario = tmp_path / "moe.yaml"
    scenario.write_text(
        f"prism: 1\nname: moe\nprogram: {{script: {PROGRAM}, args: ['2']}}\nworld: {{size: 6, ranks_per_node: 2}}\n"
        "devices: {kind: cpu, slots: 2}\n"
    )
    hosts = run(scenario, tmp_path, 3, delay_s=0.002, loss=0.01)
    assert hosts.dropped > 0
