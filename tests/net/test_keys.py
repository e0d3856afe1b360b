"""The keys of a run: only their user can read them, and keys that others could have read are not used."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from prism.errors import RunError
from prism.net.keys import WorkerKeys, make_keys


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "keys"


def test_keys_come_back_from_a_private_file(directory: Path) -> None:
    _, keys = make_keys()
    path = keys.save(directory)
    assert WorkerKeys.load(path) == keys
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_each_run_has_its_own_keys(directory: Path) -> None:
    (first, _), (second, keys) = make_keys(), make_keys()
    assert len({first.secret, second.secret, keys.secret}) == 3
    assert second.worker_public == keys.public
    assert second.public == keys.coordinator_public
    make_keys()[1].save(directory)
    assert WorkerKeys.load(keys.save(directory)) == keys


def test_secrets_are_not_printed() -> None:
    for keys in make_keys():
        assert keys.secret not in repr(keys)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_open_to_others_is_refused(directory: Path, mode: int) -> None:
    path = make_keys()[1].save(directory)
    path.chmod(mode)
    with pytest.raises(RunError, match=rf"open to others \(mode {mode:04o}\); make it private: chmod go= {path}"):
        WorkerKeys.load(path)


def test_a_directory_that_others_can_change_is_refused(directory: Path) -> None:
    path = make_keys()[1].save(directory)
    directory.chmod(0o755)
    WorkerKeys.load(path)
    directory.chmod(0o775)
    with pytest.raises(RunError, match="open to others"):
        WorkerKeys.load(path)
    with pytest.raises(RunError, match="open to others"):
        make_keys()[1].save(directory)


def test_a_link_is_not_followed(directory: Path) -> None:
    path = make_keys()[1].save(directory)
    link = directory / "link"
    link.symlink_to(path)
    with pytest.raises(RunError, match="cannot read the keys"):
        WorkerKeys.load(link)


@pytest.mark.parametrize("content", [b"", b"{}", b'{"public": 1}'])
def test_a_file_without_keys_is_refused(directory: Path, content: bytes) -> None:
    path = make_keys()[1].save(directory)
    path.write_bytes(content)
    with pytest.raises(RunError, match="cannot read the keys of the run from"):
        WorkerKeys.load(path)
