"""One target under atheris: `python -m tests.fuzz.target NAME CORPUS... [libFuzzer's options]`."""

from __future__ import annotations

import sys

import atheris

from tests.fuzz.targets import TARGETS  # first: it has what it imports instrumented

from tests.fuzz.mutating import MUTATORS  # isort: skip


def main() -> None:
    """Fuzz; never returns."""
    name, *rest = sys.argv[1:]
    atheris.Setup([sys.argv[0], *rest], TARGETS[name], custom_mutator=MUTATORS.get(name))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
