"""Workers that somebody else starts: srun, mpirun, torchrun, kubectl or ssh; they find the coordinator by its address.

What proves that they belong to the run is the token, a file with its keys that only its user can read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from prism.net.launchers import Meeting, Started


class ExternalLauncher:
    """Waits for `workers` workers at `listen`, `tcp://host:port`, and writes the token for them."""

    def __init__(self, workers: int, listen: str, token: Path, wait_s: float) -> None:
        self.workers = workers
        self.wait_s = wait_s
        self._listen = listen
        self._token = token
        self._written = False

    async def open(self) -> str:
        """Where the scenario says."""
        return self._listen

    async def start(self, meeting: Meeting) -> Sequence[Started]:
        """Write the token; nobody is started here."""
        meeting.keys.save(self._token.parent, self._token.name)
        self._written = True
        return ()

    def told(self, address: str) -> str:
        """How workers are started."""
        return f"start each with `{command(address, self._token)}`"

    def late(self, address: str) -> str:
        """How workers are started, and for how long they are waited for."""
        return f"{self.told(address)}, or wait longer (launcher.wait)"

    async def end(self) -> None:
        """A token opens nothing once its run is over; one that was not written here is another run's."""
        if self._written:
            self._token.unlink(missing_ok=True)


def command(address: str, token: Path) -> str:
    """What starts one worker, on a host that can reach the address and read the token."""
    return f"python -m prism.gpu.worker --coordinator {address} --token-file {token}"
