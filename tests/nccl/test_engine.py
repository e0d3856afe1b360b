"""The engine's own tests: a C++ program, plain and under sanitizers, which holds it to a ring of N real ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nccl.native import SANITIZERS, SOURCES, build, needs_compiler, run

FILES = [*sorted(SOURCES.glob("*.cpp")), *sorted((SOURCES / "tests").glob("*.cpp"))]

pytestmark = needs_compiler


@pytest.mark.slow  # the same checks as below, but for what sanitizers change
def test_plainly(tmp_path: Path) -> None:
    run(build(FILES, tmp_path))


def test_with_address_and_undefined_behaviour_sanitizers(tmp_path: Path) -> None:
    run(build(FILES, tmp_path, *SANITIZERS))


def test_with_thread_sanitizer(tmp_path: Path) -> None:
    run(build(FILES, tmp_path, "-fsanitize=thread"), "fifo", "bridge", "threads")
