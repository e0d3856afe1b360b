"""A whole scenario: which program to run as how many ranks, on what, and what to find out.

A scenario that exists is a valid one, however it was made. Its blocks: prism.scenario.blocks, network and what_if.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from prism.errors import ScenarioError
from prism.scenario.availability import refuse_unavailable, refuse_unavailable_variants
from prism.scenario.block import Block, Timeout
from prism.scenario.blocks import (
    Calibrate,
    Capture,
    Devices,
    Emulate,
    Fault,
    Fold,
    Iteration,
    Launcher,
    Output,
    Program,
    World,
)
from prism.scenario.flaw import Flaw
from prism.scenario.network import Network
from prism.scenario.reader import read_fields
from prism.scenario.rules import Stage, refuse_impossible
from prism.scenario.sweeps import Sweeps
from prism.scenario.what_if import WhatIf
from prism.scenario.yaml_source import Scalar, Tree, read_file

VERSION: Final = 1

LATER_BLOCKS: Final[dict[str, tuple[str, ...]]] = {
    "capture": ("calibrate", "network", "what_if", "emulate"),
    "calibrate": ("network", "what_if", "emulate"),
}
"""Blocks that decide nothing about a stage, so that a change in them leaves it done."""


class Scenario(Block, frozen=True, kw_only=True):
    """A whole scenario; making an invalid one raises ScenarioError, `place: $.path: what is wrong, and the fix`."""

    prism: Literal[1] = VERSION
    """Version of the schema."""

    name: str
    program: Program
    world: World
    fold: Fold | None = None
    semantics: Literal["auto", "nccl", "gloo"] = "auto"
    """Whose rules of communication hold; auto: group by group, those of the backend that the program asked for."""

    iteration: Iteration = Iteration()
    devices: Devices = Devices()
    network: Network = Network()
    capture: Capture = Capture()
    calibrate: Calibrate = Calibrate()
    emulate: Emulate = Emulate()
    faults: tuple[Fault, ...] = ()
    what_if: tuple[WhatIf, ...] = ()
    hang_after: Timeout = 600 * 10**9
    """Virtual or idle time, in ns, after which a rank that neither posts nor ends is reported."""

    launcher: Launcher = Launcher()
    stages: tuple[Stage, ...] = ("capture", "calibrate", "replay")
    output: Output = Output()
    path: Annotated[str | None, Meta(extra={"internal": True})] = None
    """The file that the scenario was read from, absolute; no key of the file, null for one built in code."""

    planned: Annotated[tuple[str, ...], Meta(extra={"internal": True})] = ()
    """The stages that the file names, whichever are chosen; no key of the file."""

    def __post_init__(self) -> None:
        _read_again(self)
        refuse_impossible(self)
        refuse_unavailable(self)

    @classmethod
    def load(cls, path: str | os.PathLike[str], overrides: Iterable[str] = ()) -> Scenario:
        """Read a scenario file, with `key.path=value` overrides (values are YAML); raises ScenarioError in one line."""
        name = os.fspath(path)
        source = read_file(name)
        planned = _words(source.tree, "stages")
        for assignment in overrides:
            source = source.override(assignment)
        try:
            _refuse_other_version(source.tree)
            refuse_unavailable_variants(source.tree, cls.__struct_fields__, WhatIf.__struct_fields__)
            sweeps = Sweeps(source.tree)
        except Flaw as flaw:
            raise flaw.at(source.place(flaw.path)) from None
        try:
            return cls(**read_fields(cls, sweeps.tree), path=os.path.abspath(name), planned=planned)
        except Flaw as flaw:
            written = sweeps.written(flaw.path)
            raise Flaw(written, flaw.what, source.place(written)) from None

    @property
    def base(self) -> Path:
        """The directory that paths of the scenario are relative to: the file's, or the working directory."""
        return Path(self.path).parent if self.path else Path.cwd()

    @property
    def script(self) -> Path | None:
        """The program's script as an absolute path; None for a module."""
        return self.base / self.program.script if self.program.script else None

    def slices(self, ranks: Sequence[int] | None = None) -> tuple[tuple[int, ...], ...]:
        """The slices, in the order in which they run, that calibrate these ranks, ascending; left out: all."""
        wanted = range(self.world.size) if ranks is None else ranks
        chosen = self.calibrate.slice
        if isinstance(chosen, int) or chosen == "auto":
            width = self.devices.slots if chosen == "auto" else chosen
            return tuple(tuple(wanted[first : first + width]) for first in range(0, len(wanted), width))
        fixed = map(self.world.node_ranks, range(self.world.nodes)) if chosen == "node" else chosen
        kept = (tuple(rank for rank in slice if rank in wanted) for slice in fixed)
        return tuple(slice for slice in kept if slice)

    def digest(self, stage: Stage = "replay") -> str:
        """SHA-256 of all that decides what a stage computes: not paths, which stages run, where, or the views."""
        content = msgspec.to_builtins(self)
        for key in ("path", "planned", "stages", "output", "launcher", *LATER_BLOCKS.get(stage, ())):
            del content[key]
        return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()


def _words(tree: Tree, key: str) -> tuple[str, ...]:
    """A list of words as it was written; none where it is something else, or is not there."""
    values = tree.get(key) if isinstance(tree, dict) else None
    return tuple(one.text for one in values if isinstance(one, Scalar)) if isinstance(values, list) else ()


def _refuse_other_version(tree: Tree) -> None:
    """Before anything else is judged: a file of another version has other keys."""
    if isinstance(tree, dict) and tree.get("prism") != Scalar(str(VERSION)):
        raise Flaw(("prism",), f"expected version {VERSION} of the schema, write `prism: {VERSION}`")


def _read_again(scenario: Scenario) -> None:
    """Python checks no annotations: what was built in code is put through the schema too, and lists become tuples."""
    for field in msgspec.structs.fields(scenario):
        given = getattr(scenario, field.name)
        try:
            value = msgspec.convert(msgspec.to_builtins(given), field.type)
        except (msgspec.ValidationError, TypeError) as error:
            what, _, where = str(error).replace("`", "").partition(" - at $")
            raise ScenarioError(f"scenario: $.{field.name}{where}: {what[0].lower()}{what[1:]}") from None
        msgspec.structs.force_setattr(scenario, field.name, value)
