from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from prism.core.graph import Int64
from prism.net.columns import load_columns, save_columns


@dataclass(frozen=True)
class Table:
    ranks: tuple[int, ...]
    first: Int64
    empty: Int64


def test_columns_come_back_as_they_were(tmp_path: Path) -> None:
    table = Table((3, 5), np.arange(6).reshape(2, 3), np.empty(0, np.int64))
    save_columns(tmp_path / "table", table)
    again = load_columns(tmp_path / "table", Table)
    assert again.ranks == (3, 5)
    assert np.array_equal(again.first, table.first)
    assert again.empty.size == 0


def test_readers_cannot_change_them(tmp_path: Path) -> None:
    save_columns(tmp_path / "table", Table((), np.arange(3), np.arange(2)))
    with pytest.raises(ValueError, match="read-only"):
        load_columns(tmp_path / "table", Table).first[0] = 1


def test_a_directory_is_written_once(tmp_path: Path) -> None:
    save_columns(tmp_path / "table", Table((), np.arange(3), np.arange(2)))
    with pytest.raises(FileExistsError):
        save_columns(tmp_path / "table", Table((), np.arange(3), np.arange(2)))
