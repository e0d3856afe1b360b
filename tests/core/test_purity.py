"""The core is pure: it imports nothing that does I/O, tells the time or rolls dice, and neither does importing it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import prism.core

CORE = Path(prism.core.__file__).parent
FORBIDDEN = {"asyncio", "zmq", "torch", "time", "os", "socket", "random"}


def imported(source: str) -> Iterator[str]:
    """The top-level packages that a module imports, at whatever depth of its code."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module).partition(".")[0]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("__import__", "import_module"):
            yield ast.unparse(node)


@pytest.mark.parametrize("path", sorted(CORE.rglob("*.py")), ids=lambda path: path.stem)
def test_no_module_of_the_core_imports_what_is_not_pure(path: Path) -> None:
    names = list(imported(path.read_text()))
    assert not FORBIDDEN & set(names)
    assert not [name for name in names if "(" in name], "the core imports by statement only"


@pytest.mark.parametrize("path", sorted(CORE.rglob("*.py")), ids=lambda path: path.stem)
def test_the_core_knows_no_other_part_of_prism(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("prism"):
            assert node.module == "prism.errors" or str(node.module).startswith("prism.core")


def test_the_guard_sees_nested_imports() -> None:
    source = "def f():\n    import os.path\nclass C:\n    from time import sleep\nif x:\n    import_module('torch')\n"
    assert set(imported(source)) == {"os", "time", "import_module('torch')"}


@pytest.mark.parametrize(
    "name", ["prism", "prism.core.stage.world", "prism.core.stage.building", "prism.core.prismtrace"]
)
def test_importing_it_loads_nothing_heavy(name: str) -> None:
    code = f"import sys, {name}; print(*sorted({{'asyncio', 'torch', 'zmq'}} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []
