"""Starting workers on this host."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path


async def launch_local(address: str, keys: Path, name: str) -> asyncio.subprocess.Process:
    """Start a worker that will connect to `address`; a Ctrl-C on the terminal does not reach it."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "prism.gpu.worker", "--coordinator", address, "--keys", str(keys), "--name", name,
        stdin=asyncio.subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
