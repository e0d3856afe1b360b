"""Reads a YAML tree into msgspec structs: the type of a field decides what its text means, and nothing is guessed."""

from __future__ import annotations

import difflib
import functools
import re
from typing import Any

import msgspec
from msgspec import inspect

from prism.scenario.flaw import Flaw, Path
from prism.scenario.quantities import Quantity
from prism.scenario.yaml_source import Scalar, Tree

_INTEGER = re.compile(r"-?[0-9]{1,18}")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]{1,3})?")
_PLAIN_WORDS: dict[type, str] = {
    inspect.NoneType: "null",
    inspect.BoolType: "true or false",
    inspect.StrType: "a string",
    inspect.DictType: "a mapping",
}
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


def read_fields(struct: type[msgspec.Struct], tree: Tree) -> dict[str, Any]:
    """The keys of a mapping as keyword arguments of `struct`; raises Flaw with the path of what does not fit."""
    return _fields(_described_by(struct), tree, ())


@functools.cache
def _described_by(struct: type[msgspec.Struct]) -> inspect.StructType:
    """Found out once: that takes longer than all of the reading."""
    kind = inspect.type_info(struct)
    assert isinstance(kind, inspect.StructType)
    return kind


def keys_of(kind: inspect.StructType) -> dict[str, inspect.Field]:
    """The fields that are keys of the file: all but those marked `internal`."""
    return {field.encode_name: field for field in kind.fields if not _is_internal(field.type)}


def _is_internal(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.Metadata) and "internal" in (kind.extra or {})


def _read(kind: inspect.Type, tree: Tree, path: Path) -> Any:
    match kind:
        case inspect.StructType():
            return kind.cls(**_fields(kind, tree, path))
        case inspect.DictType() if isinstance(tree, dict):
            return {key: _read(kind.value_type, value, (*path, key)) for key, value in tree.items()}
        case inspect.VarTupleType() if isinstance(tree, list) and len(tree) >= (kind.min_length or 0):
            return tuple(_read(kind.item_type, item, (*path, index)) for index, item in enumerate(tree))
        case inspect.UnionType():
            return _union(kind, tree, path)
        case inspect.Metadata():
            return _quantity(kind, tree, path)
        case _:
            value = _scalar(kind, tree) if isinstance(tree, Scalar) else None
            if value is None:
                raise _unexpected(kind, tree, path)
            return value


def _fields(kind: inspect.StructType, tree: Tree, path: Path, partial: bool = False) -> dict[str, Any]:
    if not isinstance(tree, dict):
        raise _unexpected(kind, tree, path)
    fields = keys_of(kind)
    for key in tree:
        if key not in fields:
            raise Flaw((*path, key), f"unknown key, {_choices(key, list(fields))}")
    for name, field in fields.items():
        if field.required and name not in tree and not partial:
            raise Flaw((*path, name), f"missing, expected {_described(field.type)}")
    return {fields[key].name: _field(fields[key], value, (*path, key)) for key, value in tree.items()}


def _field(field: inspect.Field, tree: Tree, path: Path) -> Any:
    """A block that has a default changes only the keys that are written."""
    if isinstance(field.type, inspect.StructType) and isinstance(field.default, msgspec.Struct):
        return msgspec.structs.replace(field.default, **_fields(field.type, tree, path, partial=True))
    return _read(field.type, tree, path)


def _choices(key: str, valid: list[str]) -> str:
    close = difflib.get_close_matches(key, valid, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{hint}valid: {', '.join(valid)}"


def _union(kind: inspect.UnionType, tree: Tree, path: Path) -> Any:
    members = [member for member in kind.types if not isinstance(member, inspect.NoneType)]
    if isinstance(tree, Scalar) and tree.is_null and len(members) < len(kind.types):
        return None
    fitting = [member for member in members if isinstance(tree, _shape(member))]
    if len(fitting) == 1:
        return _read(fitting[0], tree, path)
    for member in fitting:
        value = _scalar(member, tree) if isinstance(tree, Scalar) else None
        if value is not None:
            return value
    raise _unexpected(kind, tree, path)


def _shape(kind: inspect.Type) -> type:
    """What the tree must be for `kind` to be worth trying."""
    match kind:
        case inspect.StructType() | inspect.DictType():
            return dict
        case inspect.VarTupleType():
            return list
        case _:
            return Scalar


def _quantity(kind: inspect.Metadata, tree: Tree, path: Path) -> int:
    quantity: Quantity = (kind.extra or {})["quantity"]
    if not isinstance(tree, Scalar) or tree.is_null:
        raise _unexpected(kind, tree, path)
    try:
        value = quantity.parse(tree.text)
    except ValueError as error:
        raise Flaw(path, str(error)) from None
    if not _within(kind.type, value):
        raise _unexpected(kind, tree, path)
    return value


def _scalar(kind: inspect.Type, scalar: Scalar) -> str | int | float | bool | None:
    """The scalar read as `kind`, None where it does not fit."""
    text, plain = scalar.text, scalar.plain
    match kind:
        case inspect.StrType() if not scalar.is_null:
            return text
        case inspect.LiteralType():
            return next((value for value in kind.values if str(value) == text), None)
        case inspect.BoolType() if plain:
            return _BOOLS.get(text)
        case inspect.IntType() if plain and _INTEGER.fullmatch(text) and _within(kind, int(text)):
            return int(text)
        case inspect.FloatType() if plain and _NUMBER.fullmatch(text) and _within(kind, float(text)):
            return float(text)
        case _:
            return None


def _within(kind: inspect.Type, value: float) -> bool:
    assert isinstance(kind, inspect.IntType | inspect.FloatType)
    above = (kind.gt is None or value > kind.gt) and (kind.ge is None or value >= kind.ge)
    return above and (kind.le is None or value <= kind.le)


def _unexpected(kind: inspect.Type, tree: Tree, path: Path) -> Flaw:
    return Flaw(path, f"expected {_described(kind)}, got {_shown(tree)}")


def _described(kind: inspect.Type) -> str:
    *others, last = _alternatives(kind)
    return f"{', '.join(others)} or {last}" if others else last


def _alternatives(kind: inspect.Type) -> list[str]:
    match kind:
        case inspect.UnionType():
            return [word for member in kind.types for word in _alternatives(member)]
        case inspect.LiteralType():
            return [str(value) for value in kind.values]
        case inspect.Metadata(type=number, extra={"quantity": quantity}):
            return [f"a {quantity.noun}{_bounds(number)} such as {quantity.example}"]
        case inspect.IntType():
            return [f"an integer{_bounds(kind)}"]
        case inspect.FloatType():
            return [f"a number{_bounds(kind)}"]
        case inspect.VarTupleType():
            item = _described(kind.item_type).removeprefix("an ").removeprefix("a ")
            return [f"a list{' of at least one' if kind.min_length else ''} [{item}, ...]"]
        case inspect.StructType():
            return [f"a mapping with keys {', '.join(keys_of(kind))}"]
        case _:
            return [_PLAIN_WORDS[type(kind)]]


def _bounds(kind: inspect.Type) -> str:
    assert isinstance(kind, inspect.IntType | inspect.FloatType)
    bounds = {"above": kind.gt, "of at least": kind.ge, "of at most": kind.le}
    return " and".join(f" {word} {bound}" for word, bound in bounds.items() if bound is not None)


def _shown(tree: Tree) -> str:
    match tree:
        case dict():
            return "a mapping"
        case list():
            return "a list" if tree else "an empty list"
        case Scalar(is_null=True):
            return "null"
        case Scalar(text=text, plain=plain):
            return text[:60] if plain and _NUMBER.fullmatch(text) else repr(text[:60])
