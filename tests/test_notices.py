"""What a rank notices while its program runs well, and what of it reaches the result."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
import torch

from tests.running import capture, scenario

PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.parametrize(("semantics", "kinds"), [("nccl", ["unsafe_order"]), ("gloo", [])])
def test_two_threads_on_one_group(semantics: str, kinds: list[str], tmp_path: Path) -> None:
    run = capture(scenario(PROGRAMS / "two_threads.py", semantics=semantics), tmp_path / "out")
    assert run.output == ["[4.0, 4.0]\n"] * 2
    assert [(warning.kind, warning.ranks) for warning in run.result.warnings] == [(kind, [0, 1]) for kind in kinds]


def test_a_backend_built_for_another_torch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("prism.gpu._backend", reason="the C++ backend is not built here")
    monkeypatch.setattr(torch, "__version__", "9.9.9")
    monkeypatch.delitem(sys.modules, "prism.gpu.group.native_group", raising=False)
    with pytest.raises(ImportError, match=r"was built for torch \d+\.\d+\.\d+, and this is torch 9\.9\.9"):
        importlib.import_module("prism.gpu.group.native_group")
