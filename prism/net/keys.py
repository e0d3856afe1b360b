"""The CURVE keys of one run: made when it starts, handed to its workers in a file that only their user can read.

The coordinator and the workers of a run have one key pair each. A worker proves with its pair that it belongs to this
run, and sees by the coordinator's public key that it talks to the right one; another run, or another user of the
machine, can do neither.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field, replace
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

    def save(self, directory: Path, name: str = FILE_NAME) -> Path:
        """Write the keys to a file of mode 0600, whose directory is made private where there is none; its path."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_unchangeable(directory)
        path = directory / name
        path.unlink(missing_ok=True)  # an earlier run's; O_EXCL then makes sure that the file is ours from its birth
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(msgspec.json.encode(self))
        return path

    def among_workers(self) -> tuple[CoordinatorKeys, WorkerKeys]:
        """What a worker needs to listen to the others of its run, and to connect to one of them."""
        return CoordinatorKeys(self.public, self.secret, self.public), replace(self, coordinator_public=self.public)

    @classmethod
    def load(cls, path: Path) -> WorkerKeys:
        """Read the keys back; raises RunError if anyone but this user could have read or replaced them."""
        try:
            _check_unchangeable(path.parent)
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


def _check_unchangeable(directory: Path) -> None:
    """Others may look into it, but must not be able to put another file in the place of the keys."""
    status = directory.stat()
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid not in (0, os.geteuid()):
        raise RunError(f"{directory} belongs to user {status.st_uid}, not to {os.geteuid()}; keep keys in your own")
    if mode & 0o022 and not mode & stat.S_ISVTX:  # with the sticky bit they cannot replace what is ours
        raise RunError(f"{directory} is open to others (mode {mode:04o}); protect it: chmod go-w {directory}")


def _check_private(path: Path, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise RunError(f"{path} belongs to user {status.st_uid}, not to {os.geteuid()}; keys must be the user's own")
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        raise RunError(f"{path} is open to others (mode {mode:04o}); make it private: chmod go= {path}")
