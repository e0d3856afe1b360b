"""What schema version 1 names and this version of PRISM cannot do yet; a feature that lands leaves the table."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from prism.scenario.flaw import Flaw, Path
from prism.scenario.yaml_source import Tree

if TYPE_CHECKING:
    from prism.scenario.schema import Scenario

AVAILABLE: dict[str, tuple[object, ...]] = {
    "fold": (None,),
    "devices.kind": ("auto", "cpu"),
    "devices.present_as": (None,),
    "devices.host_memory": (None,),
    "devices.spill": (None,),
    "network.model": ("alpha-beta", "none"),
    "network.table": (None,),
    "network.topology.kind": ("node",),
    "network.topology.pods": (None,),
    "network.topology.oversubscription": (None,),
    "capture.payloads": ("all",),
    "calibrate.iterations": (None,),
    "calibrate.answers": ("auto", "fast"),
    "calibrate.share": ("none",),
    "faults": (),
    "launcher.kind": ("local",),
    "stages": ("capture", "calibrate", "replay"),
    "output.formats": ("perfetto", "html"),
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
    """Raise Flaw where a variant changes another key of the scenario, or sweeps a list of values."""
    variants = tree.get("what_if") if isinstance(tree, dict) else None
    for index, variant in enumerate(variants if isinstance(variants, list) else []):
        for key, value in variant.items() if isinstance(variant, dict) else ():
            path: Path = ("what_if", index, key)
            if key in scenario_keys and key not in variant_keys:
                raise Flaw(path, f"a variant of {key} is not available yet, choose from {', '.join(variant_keys)}")
            for at in _lists(value, path):
                if at[2:] != ("slow", "ranks"):
                    raise Flaw(at, "a sweep over a list is not available yet, write one variant for each value")


def _choices_at(scenario: Scenario, path: Path) -> Iterator[tuple[Path, object]]:
    value: object = scenario
    for key in path:
        value = getattr(value, str(key))
    if isinstance(value, tuple):
        yield from (((*path, index), item) for index, item in enumerate(value))
    else:
        yield path, value


def _refusal(value: object, choices: tuple[object, ...]) -> str:
    if not choices:
        return "not available yet, leave the list empty"
    if choices == (None,):
        return "not available yet, leave it null"
    return f"{value} is not available yet, choose from {', '.join(str(choice) for choice in choices)}"


def _lists(tree: Tree, path: Path) -> Iterator[Path]:
    """The paths of all lists in the tree."""
    if isinstance(tree, list):
        yield path
    if isinstance(tree, dict | list):
        for step, part in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from _lists(part, (*path, step))
