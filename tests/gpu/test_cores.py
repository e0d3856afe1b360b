"""How long a rank waited for a core, as Linux counts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from prism.gpu.rank import cores as module
from prism.gpu.rank.cores import Cores, cores


@pytest.mark.parametrize(
    ("text", "found"), [("5000 700 3\n", Cores(5000, 700)), ("what no kernel says", Cores(0, 0)), (None, Cores(0, 0))]
)
def test_it_is_read_where_the_kernel_tells(
    text: str | None, found: Cores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if text is not None:
        (tmp_path / "schedstat").write_text(text)
    monkeypatch.setattr(module, "_SCHEDSTAT", tmp_path / "schedstat")
    assert cores() == found


def test_times_since_a_moment() -> None:
    assert Cores(5000, 700).since(Cores(4000, 100)) == Cores(1000, 600)
