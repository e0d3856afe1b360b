"""YAML text as a tree of scalars left as they were written, with the place of every value.

Scalars stay text: whether `on`, `1.10` or `0x10` is a word or a number is for the schema to say, not for YAML 1.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path as FilePath
from typing import TypeAlias

import yaml

from prism.scenario.flaw import Flaw, Path

MAX_DEPTH = 32
MAX_VALUES = 200_000
"""Values after the expansion of aliases; a slice list of 100 000 ranks fits, an alias bomb does not."""

_UNUSABLE = re.compile("[\0\ud800-\udfff]")  # no argument, variable, path or JSON text can hold these


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar as it was written; `plain` says that it stood without quotes."""

    text: str
    plain: bool = True

    @property
    def is_null(self) -> bool:
        return self.plain and self.text in ("", "~", "null", "Null", "NULL")


Tree: TypeAlias = "dict[str, Tree] | list[Tree] | Scalar"


@dataclass(frozen=True)
class Source:
    """A tree, and where each of its values was written: `file:line` or `--set key`."""

    tree: Tree
    places: dict[Path, str]

    def place(self, path: Path) -> str:
        """Where `path` was written or, if it was not, the closest mapping or list around it."""
        return next(self.places[path[:end]] for end in range(len(path), -1, -1) if path[:end] in self.places)

    def override(self, assignment: str) -> Source:
        """The source with one `key.path=value` applied; the value is YAML. Raises Flaw."""
        key, separator, text = assignment.partition("=")
        place = f"--set {key}"
        if not separator:
            raise Flaw((), "expected key.path=value, such as world.size=8", place)
        path: Path = tuple(key.split("."))
        part = _parse(text, path, lambda _: place)
        kept = {known: at for known, at in self.places.items() if known[: len(path)] != path}
        made = {path[:end]: place for end in range(_mappings_along(self.tree, path), len(path))}
        return Source(_grafted(self.tree, path, part.tree), kept | made | part.places)


def read_file(name: str) -> Source:
    """Read a YAML file; raises Flaw at `name:line` for all that is not one readable, untagged YAML document."""
    try:
        text = FilePath(name).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise Flaw((), f"no such file, {_nearby(FilePath(name))}", f"{name}:1") from None
    except IsADirectoryError:
        raise Flaw((), "is a directory, give the path of a scenario file", f"{name}:1") from None
    except UnicodeDecodeError as error:
        raise Flaw((), f"is not UTF-8 at byte {error.start}, save it as UTF-8 text", f"{name}:1") from None
    except OSError as error:
        raise Flaw((), f"cannot be read: {error.strerror}", f"{name}:1") from None
    return _parse(text, (), lambda line: f"{name}:{line}")


def _nearby(path: FilePath) -> str:
    """What may have been meant."""
    there = [file.name for file in path.parent.glob("*.y*ml")] if path.parent.is_dir() else []
    close = get_close_matches(path.name, there, n=1)
    return f"did you mean {path.with_name(close[0])}?" if close else "give the path of a scenario"


def _mappings_along(tree: Tree, path: Path) -> int:
    """How many mappings in a row the path leads through."""
    count = 0
    while count < len(path) and isinstance(tree, dict):
        tree = tree.get(str(path[count]), Scalar(""))
        count += 1
    return count


def _grafted(tree: Tree, path: Path, value: Tree) -> Tree:
    """A copy of the tree with `value` at `path`; whatever is no mapping on the way gives way to one."""
    if not path:
        return value
    keys = tree if isinstance(tree, dict) else {}
    name = str(path[0])
    return {**keys, name: _grafted(keys.get(name, Scalar("")), path[1:], value)}


def _compose(text: str, path: Path, locate: Callable[[int], str]) -> yaml.Node | None:
    """The only document of the text; its events are judged first, so that the composer never recurses deep."""
    depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise Flaw(path, f"the tag {tag!r} is not allowed, leave it out", locate(line))
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise Flaw(path, f"nested more than {MAX_DEPTH} deep, a scenario needs less", locate(line))
    return yaml.compose(text, yaml.SafeLoader)


def _parse(text: str, path: Path, locate: Callable[[int], str]) -> Source:
    """The text as the tree at `path`; `locate` turns a line, counted from 1, into a place."""
    try:
        node = _compose(text, path, locate)
    except yaml.MarkedYAMLError as error:
        line = 1 + (error.problem_mark.line if error.problem_mark else 0)
        raise Flaw(path, f"unreadable YAML: {error.problem}", locate(line)) from None
    except yaml.reader.ReaderError as error:
        line = 1 + text.count("\n", 0, error.position)
        raise Flaw(path, f"unreadable YAML: character U+{error.character:04X} is not allowed", locate(line)) from None
    except (ValueError, OverflowError) as error:  # PyYAML passes on what chr() and int() say of an escape or a version
        raise Flaw(path, f"unreadable YAML: {error}", locate(1)) from None
    if node is None:
        return Source(Scalar(""), {path: locate(1)})
    expansion = _Expansion(locate)
    return Source(expansion.expand(node, path, node.start_mark.line + 1), expansion.places)


class _Expansion:
    """Turns composed nodes into a tree: aliases are copied out, duplicate keys refused, places noted."""

    def __init__(self, locate: Callable[[int], str]) -> None:
        self.places: dict[Path, str] = {}
        self._locate = locate

    def expand(self, node: yaml.Node, path: Path, line: int) -> Tree:
        self.places[path] = self._locate(line)
        if len(path) > MAX_DEPTH or len(self.places) > MAX_VALUES:
            limits = f"deeper than {MAX_DEPTH} or more than {MAX_VALUES} values"
            raise Flaw(path, f"the aliases expand to too much ({limits}), write the values out", self.places[path])
        match node:
            case yaml.MappingNode():
                return self._mapping(node, path)
            case yaml.SequenceNode():
                return [
                    self.expand(item, (*path, index), item.start_mark.line + 1) for index, item in enumerate(node.value)
                ]
            case _:
                assert isinstance(node, yaml.ScalarNode)
                if _UNUSABLE.search(node.value):
                    raise Flaw(path, "text with a NUL or a lone surrogate, leave it out", self.places[path])
                return Scalar(node.value, plain=node.style is None)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> Tree:
        keys: dict[str, Tree] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise Flaw(path, "a list or mapping is used as a key, write a plain word", self._locate(line))
            inner = (*path, key.value)
            if key.value in keys:
                raise Flaw(inner, f"duplicate key, first at {self.places[inner]}, keep one", self._locate(line))
            keys[key.value] = self.expand(value, inner, line)
        return keys
