"""The text of a first scenario: what the probe found, and what else one may want to turn."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path

from prism.command.beginning.launch_line import LaunchLine
from prism.command.beginning.probe import WARMUP, Found
from prism.report.units import size


def sketch(line: LaunchLine, found: Found, path: Path, command: str) -> str:
    """A scenario file, commented."""
    return "\n".join(_lines(line, found, path, command)) + "\n"


def _lines(line: LaunchLine, found: Found, path: Path, command: str) -> Iterator[str]:
    yield f"# Written by `{command}` on {date.today()}."
    yield f"# Run it: python -m prism.coordinator {path}      What it will do: add --explain"
    yield from _seen(found)
    yield "prism: 1"
    yield f"name: {json.dumps(line.name)}"
    yield "program:"
    where = "script" if line.script else "module"
    yield f"  {where}: {json.dumps(_relative(line.script, path) if line.script else line.module)}"
    yield f"  args: {json.dumps(list(line.args))}"
    yield "  # env: {NAME: value}            # on top of what torchrun sets"
    yield "  # preload: [transformers]      # slow imports, done once for all ranks"
    yield "world:"
    guessed = "                        # a guess: torchrun's nnodes x nproc-per-node" if line.guessed else ""
    yield f"  size: {line.size}{guessed}"
    yield f"  ranks_per_node: {line.ranks_per_node}"
    yield from _iterations(found)
    yield from _devices(found)
    yield from _lengths(found)
    yield from _questions(line)
    yield "stages: [capture, calibrate, replay]     # and emulate: a few ranks in wall time"


def _devices(found: Found) -> Iterator[str]:
    """What the ranks run on."""
    yield "devices:"
    yield f"  slots: {len(os.sched_getaffinity(0))}                 # ranks that run at one time: this machine's cores"
    if found.presented:
        yield "  present_as: H100               # the program asks for a GPU; A100, H100, H200 or cuda"
    peak = f"the probe saw {size(found.peak_bytes)} on rank {found.peak_rank}" if found.peak_bytes else "null: no limit"
    yield f"  # memory: 80GiB                # capacity of a device; {peak}"


def _questions(line: LaunchLine) -> Iterator[str]:
    """The links, and what may be asked of them and of a rank."""
    yield "network:"
    yield "  intra_node: {bandwidth: 450GB/s, latency: 3us}     # a rank and direction"
    yield "  inter_node: {bandwidth: 50GB/s, latency: 8us}"
    yield "what_if:"
    yield "  - {name: one-slow-rank, slow: {ranks: [0], factor: 1.3}}"
    links = "inter_node" if line.size > line.ranks_per_node else "intra_node"
    half = "25GB/s" if links == "inter_node" else "225GB/s"
    yield f"  - {{name: half-network, network: {{{links}: {{bandwidth: {half}}}}}}}"


def _seen(found: Found) -> Iterator[str]:
    """What the probe saw, in comments."""
    if found.diagnosis is not None:
        yield "#"
        yield f"# The probe FAILED, {found.diagnosis.kind}:"
        yield from (f"#   {line}" for line in found.diagnosis.summary.splitlines())
        yield "#"
        return
    groups = ", ".join(f"{count} with {members} rank{'s' * (members > 1)}" for count, members in found.groups) or "none"
    seen = f" of {found.iterations} iteration{'s' * (found.iterations != 1)}" if found.iterations else ""
    end = ", then the program ended" if found.ended else ""
    yield f"# A probe{seen} took {found.wall_s:.1f} s{end}. Process groups: {groups}."
    if found.few:
        yield f"# {found.few[0].upper()}{found.few[1:]}."


def _iterations(found: Found) -> Iterator[str]:
    if found.diagnosis is None and not found.iterations:
        yield "# The probe saw no step of a torch optimizer: name the function whose calls end an iteration."
        yield "# iteration: {marker: __main__:step}"
        return
    yield "# iteration: {marker: __main__:step}     # ends an iteration, in place of the first optimizer's step"


def _lengths(found: Found) -> Iterator[str]:
    """How many iterations are captured, and how many of them count."""
    if found.ended:
        what = "to cut a program that has more" if found.iterations else "needs iteration.marker"
        yield f"# capture: {{iterations: {WARMUP + 4}}}       # {what}"
    else:
        yield f"capture: {{iterations: {WARMUP + 4}}}         # what follows does not run; leave it out to see all"
    yield f"calibrate: {{warmup: {found.warmup}}}            # iterations that are left out: the first are slow"


def _relative(script: str, path: Path) -> str:
    return os.path.relpath(script, path.parent)
