from pathlib import Path

import numpy as np

from prism.net.board import MOVED, POOL, Board


def test_what_one_process_writes_another_reads(tmp_path: Path) -> None:
    ours = Board(tmp_path / "board", sandbox=2, ops=3, create=True)
    theirs = Board(tmp_path / "board", sandbox=2, ops=3)
    assert theirs.posted.shape == (2, 3)
    assert theirs.moved.shape == (2, 3, len(MOVED))
    assert theirs.pool.shape == (2, len(POOL))
    ours.posted[1, 2] = 7
    ours.moved[0, 1] = (1, 2, 3)
    theirs.pool[0] += (1, 0, 2)
    assert theirs.posted[1, 2] == 7
    assert theirs.moved[0, 1].tolist() == [1, 2, 3]
    assert ours.pool.tolist() == [[1, 0, 2], [0, 0, 0]]
    assert np.count_nonzero(ours.posted) == 1, "columns do not overlap"


def test_the_clock_starts_with_the_last_sandbox_rank(tmp_path: Path) -> None:
    board = Board(tmp_path / "board", sandbox=2, ops=0, create=True)
    assert board.origin == 0
    board.started[0] = 50
    assert board.origin == 0
    board.started[1] = 40
    assert board.origin == 50


def test_others_may_not_read_it(tmp_path: Path) -> None:
    Board(tmp_path / "board", sandbox=1, ops=1, create=True)
    assert (tmp_path / "board").stat().st_mode & 0o077 == 0
