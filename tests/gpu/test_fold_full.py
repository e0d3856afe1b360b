"""Sums for which there is no room say where, how much and what would do, also where C++ writes them."""

from __future__ import annotations

import resource
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from prism.core.graph import OpKind
from prism.exhaustion import Exhausted
from prism.gpu.group import fold as fold_module
from tests.gpu.folding import RANKS, Store

COUNT = 100_000


@pytest.mark.parametrize(
    "threads", [pytest.param(1, id="C++"), pytest.param(3, id="threads"), pytest.param(0, id="torch")]
)
def test_a_sum_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    if threads and fold_module._fold is None:
        pytest.skip("the C++ fold is not built for this torch")
    native = SimpleNamespace(fold=partial(fold_module._fold.fold, threads=threads)) if threads else None
    monkeypatch.setattr(fold_module, "_fold", native)
    store = Store(tmp_path)
    given = [torch.ones(COUNT) for _ in range(RANKS)]
    inputs = RANKS * store.arena.room(COUNT * 4)  # so much may be written, and the beginning of the sum
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (inputs + 1000, before[1]))
    try:
        with pytest.raises(
            Exhausted, match=rf"File too large: {COUNT * 4} bytes are needed, \d+ bytes are free; raise"
        ):
            store.fold(OpKind.ALL_REDUCE, given)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
