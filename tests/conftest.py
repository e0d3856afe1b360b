"""What holds for all tests: nothing is timed, and those marked `gpu` are skipped where there is no CUDA device."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("prism", deadline=None)  # how long a case takes says how busy the machine is
settings.load_profile("prism")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kills", type=int, default=23, help="how many blows tests/test_kills.py deals")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    on_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if not on_gpu:
        return
    import torch  # only now: it takes seconds, and most runs of the core's tests need none of it

    if not torch.cuda.is_available():
        for item in on_gpu:
            item.add_marker(pytest.mark.skip(reason=f"torch {torch.__version__} sees no CUDA device"))
