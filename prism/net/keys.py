"""The CURVE keys of one run: made when it starts, handed to its workers in a file that only their user can read.

The coordinator and the workers of a run have one key pair each. A worker proves with its pair that it belongs to this
run, and sees by the coordinator's public key that it talks to the right one; another run, or another user of the
machine, can do neither.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import zmq

from prism.errors import RunError

FILE_NAME = "worker.keys"


@dataclass(frozen=True, slots=True)
class CoordinatorKeys:
    """What the listener needs; keys are in Z85 (ZeroMQ RFC 32)."""

    public: str
    secret: str = field(repr=False)
    worker_public: str


@dataclass(frozen=True, slots=True)
class WorkerKeys:
    """What a connection needs; keys are in Z85 (ZeroMQ RFC 32)."""

    public: str
    secret: str = field(repr=False)
    coordinator_public: str

    def save(self, directory: Path) -> Path:
        """Write the keys to a file of mode 0600, making its directory private; returns the file's path."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_private(directory, directory.stat())
        path = directory / FILE_NAME
        path.unlink(missing_ok=True)  # an earlier run's; O_EXCL then makes sure that the file is ours from its birth
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(msgspec.json.encode(self))
        return path

    @classmethod
    def load(cls, path: Path) -> WorkerKeys:
        """Read the keys back; raises RunError if anyone but this user could have read or replaced them."""
        try:
            _check_private(path.parent, path.parent.stat())
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
                _check_private(path, os.fstat(file.fileno()))
                return msgspec.json.decode(file.read(), type=cls)
        except (OSError, msgspec.DecodeError) as error:
            raise RunError(f"cannot read the keys of the run from {path}: {error}") from error


def make_keys() -> tuple[CoordinatorKeys, WorkerKeys]:
    """Fresh keys for one run: the coordinator's, and those that all its workers share."""
    public, secret = (key.decode() for key in zmq.curve_keypair())
    worker_public, worker_secret = (key.decode() for key in zmq.curve_keypair())
    return CoordinatorKeys(public, secret, worker_public), WorkerKeys(worker_public, worker_secret, public)


def _check_private(path: Path, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise RunError(f"{path} belongs to user {status.st_uid}, not to {os.geteuid()}; keys must be the user's own")
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        raise RunError(f"{path} is open to others (mode {mode:04o}); make it private: chmod go= {path}")
