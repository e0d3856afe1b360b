"""Lists in a variant: each stands for its values, and several for their product."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

from prism.scenario.flaw import Flaw, Path
from prism.scenario.yaml_source import Scalar, Tree

MOST_VARIANTS = 1000
"""Of one sweep; a list too many is a slip more often than a wish."""


class Sweeps:
    """A scenario's tree with every sweep written out, and the way back to what the file says."""

    def __init__(self, tree: Tree) -> None:
        """Raises Flaw for an empty list, and for a sweep of more than MOST_VARIANTS."""
        self.tree = tree
        self._origins: list[dict[Path, Path]] = []
        variants = tree.get("what_if") if isinstance(tree, dict) else None
        if isinstance(tree, dict) and isinstance(variants, list):
            written_out = [row for index, variant in enumerate(variants) for row in self._rows(index, variant)]
            self.tree = {**tree, "what_if": written_out}

    def written(self, path: Path) -> Path:
        """The path in the file of what is at `path` in the tree."""
        if len(path) < 2 or path[0] != "what_if" or not isinstance(path[1], int):
            return path
        origins = self._origins[path[1]]
        end = max(end for end in range(len(path) + 1) if path[2:end] in origins)
        return origins[path[2:end]] + path[end:]

    def _rows(self, index: int, variant: Tree) -> Iterator[Tree]:
        place: Path = ("what_if", index)
        swept = dict(_swept(variant, ())) if isinstance(variant, dict) else {}
        for path, values in swept.items():
            if not values:
                raise Flaw((*place, *path), "an empty list, give at least one value")
        rows = prod(len(values) for values in swept.values())
        if rows > MOST_VARIANTS:
            raise Flaw(place, f"its lists make {rows} variants, expected at most {MOST_VARIANTS}")
        for chosen in product(*(range(len(values)) for values in swept.values())):
            row, suffixes = variant, list[str]()
            origins: dict[Path, Path] = {(): place}
            for (path, values), number in zip(swept.items(), chosen, strict=True):
                row = _put(row, path, values[number])
                origins[path] = (*place, *path, number)
                suffixes.append(f"{_label(path, list(swept))}={_shown(values[number])}")
            self._origins.append(origins)
            yield _named(row, suffixes)


def _swept(tree: Tree, path: Path) -> Iterator[tuple[Path, list[Tree]]]:
    """The lists that stand where one value is expected; `slow.ranks` expects a list of numbers."""
    if isinstance(tree, dict):
        for key, part in tree.items():
            yield from _swept(part, (*path, key))
    elif isinstance(tree, list) and path != ("name",) and not (path == ("slow", "ranks") and _is_flat(tree)):
        yield path, tree


def _is_flat(values: list[Tree]) -> bool:
    return not any(isinstance(value, list) for value in values)


def _put(tree: Tree, path: Path, value: Tree) -> Tree:
    if not path:
        return value
    assert isinstance(tree, dict)
    key = str(path[0])
    return {**tree, key: _put(tree[key], path[1:], value)}


def _label(path: Path, swept: list[Path]) -> str:
    """The last key, or the whole path where another list has the same."""
    alone = sum(other[-1] == path[-1] for other in swept) == 1
    return str(path[-1]) if alone else ".".join(map(str, path))


def _named(row: Tree, suffixes: list[str]) -> Tree:
    """The variant under its own name; one without a name is left for the schema to refuse."""
    name = row.get("name") if isinstance(row, dict) else None
    if not isinstance(row, dict) or not isinstance(name, Scalar) or not suffixes:
        return row
    return {**row, "name": Scalar(" ".join([name.text, *suffixes]), name.plain)}


def _shown(tree: Tree) -> str:
    match tree:
        case Scalar(text=text):
            return text
        case list():
            return ",".join(_shown(item) for item in tree)
        case dict():
            return ",".join(f"{key}={_shown(part)}" for key, part in tree.items())
