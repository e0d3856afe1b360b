"""What holds for all tests: those marked `gpu` are skipped, with the reason, where there is no CUDA device."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    on_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if not on_gpu:
        return
    import torch  # only now: it takes seconds, and most runs of the core's tests need none of it

    if not torch.cuda.is_available():
        for item in on_gpu:
            item.add_marker(pytest.mark.skip(reason=f"torch {torch.__version__} sees no CUDA device"))
