"""Runs a torchrun program for real with gloo, cheaply: what a run under PRISM is compared with.

A start of torchrun costs seconds a rank, nearly all of it the import of torch. Here one fork server pays it once.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path


def run_gloo(script: Path, args: Sequence[str], world: int, timeout: float = 120.0) -> list[str]:
    """Run the script on `world` ranks of this machine and return the stdout of each.

    `timeout` is in seconds. Raises RuntimeError with the ranks' stderr when one fails or is not done in time; no rank
    outlives the call.
    """
    with tempfile.TemporaryDirectory(prefix="gloo-") as directory:
        codes = _ask(script=str(script.resolve()), args=list(args), world=world, directory=directory, timeout=timeout)
        if any(code != 0 for code in codes):
            raise RuntimeError(_failure(script, codes, Path(directory), timeout))
        return [Path(directory, f"{rank}.out").read_text() for rank in range(world)]


def _failure(script: Path, codes: list[int | None], directory: Path, timeout: float) -> str:
    failed = [rank for rank, code in enumerate(codes) if code]
    if failed:
        what = ", ".join(f"rank {rank} exited with {codes[rank]}" for rank in failed)
    else:
        failed = [rank for rank, code in enumerate(codes) if code is None]
        what = f"timeout: ranks {failed} were not done after {timeout:g} s"
    errors = (f"--- stderr of rank {rank}\n{(directory / f'{rank}.err').read_text()}" for rank in failed)
    return "\n".join([f"{script.name} at world size {len(codes)}: {what}", *errors])


def _ask(**request: object) -> list[int | None]:
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    answer = server.stdout.readline()
    if not answer:
        raise RuntimeError(f"the gloo server ended with {server.wait()}; its stderr says why")
    codes: list[int | None] = json.loads(answer)["codes"]
    return codes


@functools.cache
def _server() -> subprocess.Popen[str]:
    """One server for all runs of this process; in a session of its own, so that Ctrl-C reaches it through us only."""
    server = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("gloo_server.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    atexit.register(server.communicate)  # closes its stdin, on which it leaves, and waits for it
    return server
