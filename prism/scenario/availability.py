"""What schema version 1 names and this version of PRISM cannot do yet; a feature that lands leaves the table."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from prism.scenario.flaw import Flaw, Path
from prism.scenario.yaml_source import Tree

if TYPE_CHECKING:
    from prism.scenario.schema import Scenario

AVAILABLE: dict[str, tuple[object, ...]] = {
    "emulate.prune": (True,),
}
"""What may be chosen today, for a list: what its items may be."""


def refuse_unavailable(scenario: Scenario) -> None:
    """Raise Flaw for the first choice that is legal in the schema and not built yet."""
    for key, choices in AVAILABLE.items():
        path: Path = tuple(key.split("."))
        for at, value in _choices_at(scenario, path):
            if value not in choices:
                raise Flaw(at, _refusal(value, choices))


def refuse_unavailable_variants(tree: Tree, scenario_keys: Collection[str], variant_keys: Collection[str]) -> None:
    """Raise Flaw where a variant changes a key of the scenario that it cannot change yet."""
    variants = tree.get("what_if") if isinstance(tree, dict) else None
    for index, variant in enumerate(variants if isinstance(variants, list) else []):
        for key in variant if isinstance(variant, dict) else ():
            if key in scenario_keys and key not in variant_keys:
                what = f"a variant of {key} is not available yet, choose from {', '.join(variant_keys)}"
                raise Flaw(("what_if", index, key), what)


def _choices_at(scenario: Scenario, path: Path) -> Iterator[tuple[Path, object]]:
    value: object = scenario
    for key in path:
        value = getattr(value, str(key))
    if isinstance(value, tuple):
        yield from (((*path, index), item) for index, item in enumerate(value))
    else:
        yield path, value


def _refusal(value: object, choices: tuple[object, ...]) -> str:
    if choices == (None,):
        return "not available yet, leave it null"
    return f"{value} is not available yet, choose from {', '.join(str(choice) for choice in choices)}"
