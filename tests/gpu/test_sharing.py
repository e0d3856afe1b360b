"""How many sandbox ranks have one GPU: their kernels have to fit there together."""

from __future__ import annotations

import pytest

from prism.gpu.cuda import nvml


@pytest.mark.parametrize(("ranks", "gpus", "expected"), [(1, 1, 1), (2, 1, 2), (2, 2, 1), (3, 2, 2), (1, 0, 1)])
def test_ranks_are_dealt_out_over_the_gpus_that_they_see(
    ranks: int, gpus: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml, "visible", lambda environment: list(range(gpus)))
    assert nvml.sharing(ranks, {}) == expected
