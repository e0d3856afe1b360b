"""What a shell completes on the command line: files, stages and the keys of a scenario.

eval "$(register-python-argcomplete prism)"     for the command `prism`
activate-global-python-argcomplete              for `python -m prism.coordinator` as well
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import argcomplete
import msgspec
from argcomplete.completers import DirectoriesCompleter, FilesCompleter

from prism.scenario import STAGES, Scenario


def offer(parser: argparse.ArgumentParser) -> None:
    """Answer a shell that asks, and exit; return at once where none does."""
    completers = {
        "scenario": FilesCompleter(allowednames=("yaml", "yml")),
        "init": FilesCompleter(allowednames=("py",)),
        "out": DirectoriesCompleter(),
        "stages": _stages,
        "set": _keys,
    }
    for action in parser._actions:
        if action.dest in completers:
            action.completer = completers[action.dest]  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser)


def _stages(prefix: str, **_: object) -> list[str]:
    """Stages in their order, after those that stand there already."""
    given = prefix.split(",")[:-1]
    return [",".join([*given, stage]) for stage in STAGES if stage not in given]


def _keys(prefix: str, **_: object) -> list[str]:
    """Paths of the schema; a key with keys of its own ends with a full stop, all others with `=`."""
    above = prefix.rpartition(".")[0]
    return [f"{above}.{key}" if above else key for key in _below(Scenario, above.split(".") if above else [])]


def _below(block: type, path: list[str]) -> Iterator[str]:
    """The keys of the block at the path."""
    fields = {field.encode_name: _block_of(field.type) for field in msgspec.structs.fields(block)}
    if path:
        inner = fields.get(path[0])
        if inner is not None:
            yield from _below(inner, path[1:])
        return
    for key, inner in fields.items():
        if key not in ("path", "base"):
            yield f"{key}." if inner is not None else f"{key}="


def _block_of(kind: object) -> type | None:
    """The block that a field holds; None if it holds values, or a list."""
    kinds = getattr(kind, "__args__", (kind,)) if not isinstance(kind, type) else (kind,)
    found = [one for one in kinds if isinstance(one, type) and issubclass(one, msgspec.Struct)]
    return found[0] if found and getattr(kind, "__origin__", None) is not tuple else None
