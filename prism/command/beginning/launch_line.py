"""How a program is started today: a script with its arguments, or a command line of torchrun."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from prism.errors import ScenarioError

DEFAULT_RANKS = 2


_AS_TORCHRUN = (
    "write it as torchrun's line: --init torchrun -- --nproc-per-node N TRAIN.py ARGS; what {} sets beside that in the "
    "environment of the ranks goes to program.env"
)
OTHER_LAUNCHERS = {
    name: _AS_TORCHRUN.format(name) for name in ("accelerate", "deepspeed", "lightning", "mpirun", "srun", "python")
}
"""Commands that people start programs with, and that are not read here."""


class LaunchLine(NamedTuple):
    """A program and its world."""

    script: str | None
    module: str | None
    args: tuple[str, ...]
    size: int
    ranks_per_node: int
    guessed: bool = False  # nobody said how many ranks

    @property
    def name(self) -> str:
        """What to call the scenario."""
        return Path(self.script).stem if self.script else (self.module or "").rpartition(".")[2]


def read_launch_line(target: str, rest: Sequence[str]) -> LaunchLine:
    """What stands after --init and after `--`; raises ScenarioError if torchrun would not take it."""
    if target != "torchrun":
        if target in OTHER_LAUNCHERS:
            raise ScenarioError(f"command line: --init {target}: {OTHER_LAUNCHERS[target]}")
        if not Path(target).is_file():
            raise ScenarioError(
                f"command line: --init {target}: no such file; --init torchrun -- ARGS takes all of torchrun's"
            )
        return LaunchLine(target, None, tuple(rest), DEFAULT_RANKS, 8, guessed=True)
    return _torchrun(rest)


def _torchrun(rest: Sequence[str]) -> LaunchLine:
    from torch.distributed.run import get_args_parser  # slow to import

    parser = get_args_parser()
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # its usage, of a hundred lines
            given = parser.parse_args(list(rest))
        nodes = int(str(given.nnodes).rpartition(":")[2])  # an elastic range: the most
        ranks = int(given.nproc_per_node)
    except SystemExit:
        raise ScenarioError("command line: --init torchrun -- ...: torchrun does not take these arguments") from None
    except ValueError:
        what = f"--nnodes {given.nnodes} --nproc-per-node {given.nproc_per_node}"
        raise ScenarioError(f"command line: --init torchrun -- {what}: write both as numbers") from None
    script, args = given.training_script, tuple(given.training_script_args)
    if given.module:
        return LaunchLine(None, script, args, nodes * ranks, ranks)
    if not Path(script).is_file():
        raise ScenarioError(f"command line: --init torchrun -- ... {script}: no such file")
    return LaunchLine(script, None, args, nodes * ranks, ranks)
