"""Runs many jobs for real with gloo, several at a time: a job that hangs costs its time-out, and no other job waits.

Argument: a JSON file with a list of requests as gloo_server takes them. The answer on stdout is one line of JSON: for
each job its exit codes by rank, null where the rank was killed.
"""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
from pathlib import Path
from typing import Any

SIDE_BY_SIDE = 16


def run_gloo_jobs(requests: list[dict[str, Any]], folder: Path) -> list[list[int | None]]:
    """The exit codes of each job's ranks; a rank's output is in its request's directory."""
    file = folder / "requests.json"
    file.write_text(json.dumps(requests))
    done = subprocess.run([sys.executable, __file__, str(file)], stdout=subprocess.PIPE, text=True, check=True)
    answer: list[list[int | None]] = json.loads(done.stdout)
    return answer


def main() -> None:
    # Only here, so that the tests themselves need no torch.
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import torch
    from gloo_server import run_job

    torch.set_num_threads(1)
    requests = json.loads(Path(sys.argv[1]).read_text())
    # Each process of the pool has no thread of its own while it forks ranks, as run_job wants it.
    with multiprocessing.get_context("fork").Pool(SIDE_BY_SIDE) as pool:
        print(json.dumps(pool.map(run_job, requests, chunksize=1)))


if __name__ == "__main__":
    main()
