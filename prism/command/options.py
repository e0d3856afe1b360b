"""What is given to the command: its options, and the scenario that they name."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from prism.command.completing import offer
from prism.command.versions import versions
from prism.errors import ScenarioError
from prism.scenario import Scenario


class _Parser(argparse.ArgumentParser):
    """Usage errors are one line, like all others."""

    def error(self, message: str) -> None:  # type: ignore[override]
        raise ScenarioError(f"command line: {message}; see --help")


class _Version(argparse.Action):
    """Prints the versions and exits; they are looked up only then."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, *_: object) -> None:
        print(*versions(), sep="\n")
        sys.exit(0)


def parser() -> argparse.ArgumentParser:
    """All options, with what `--help` says of them."""
    found = _Parser(
        prog="python -m prism.coordinator",
        description="Run a scenario: capture the program's dependency graph, calibrate it, replay it, report.",
        epilog="exit codes: 0 done; 2 bad scenario or usage; 3 the program failed; 4 the run failed; 130 interrupted",
    )
    found.add_argument("scenario", nargs="?", metavar="SCENARIO.yaml", help="the scenario file")
    stages = "stages to run now; a capture keeps what the scenario's other stages need"
    found.add_argument("--stages", metavar="NAME,...", help=stages)
    found.add_argument("--set", action="append", default=[], metavar="KEY.PATH=VALUE", help="override a key")
    found.add_argument("--out", type=Path, metavar="DIR", help="output folder (default: runs/<name>)")
    found.add_argument("--resume", action="store_true", help="use finished stages of the output folder again")
    found.add_argument(
        "--json", action="store_true", help="print result.json instead of the summary; with --explain, what that says"
    )
    found.add_argument("--sandbox", metavar="RANK,...", help="sandbox ranks instead of the scenario's")
    found.add_argument("--attach", action="store_true", help="let the sandbox ranks wait for a debugger")
    loudness = found.add_mutually_exclusive_group()
    loudness.add_argument("-q", "--quiet", action="store_true", help="no progress")
    loudness.add_argument("-v", "--verbose", action="store_true", help="tracebacks of internal errors")
    found.add_argument("--explain", action="store_true", help="say what each stage will do, and run nothing")
    found.add_argument("--serve", nargs="?", type=_port, const=0, metavar="PORT", help="show the run on a local page")
    first = "write a first scenario after a probe: --init TRAIN.py -- ARGS, or --init torchrun -- TORCHRUN'S ARGS"
    found.add_argument("--init", metavar="TRAIN.py", help=first)
    found.add_argument("--version", action=_Version, help="what a report of a bug should say")
    return found


def read_options(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """What is given to the command, and the program's arguments that follow `--`; raises ScenarioError."""
    known = parser()
    offer(known)
    given, rest = _split(arguments)
    options, unknown = known.parse_known_args(given)
    if options.init is not None and (unknown or options.scenario is not None):
        what = f"{unknown[0] if unknown else options.scenario} stands before `--`, and what is the program's follows it"
        raise ScenarioError(f"command line: --init: {what}: --init {options.init} -- ITS ARGUMENTS")
    if unknown:
        quotes = "; quote a value of --set that has spaces" if options.set else ""
        raise ScenarioError(f"command line: unrecognized arguments: {' '.join(unknown)}{quotes}; see --help")
    if rest and options.init is None:
        raise ScenarioError("command line: `--` and arguments of the program belong to --init; see --help")
    return options, rest


def _port(text: str) -> int:
    if not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port, got {text}; the scenario stands before --serve")
    return int(text)


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """What is the command's, and what follows `--`."""
    arguments = list(arguments)
    at = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:at], arguments[at + 1 :]


def read_scenario(options: argparse.Namespace) -> Scenario:
    """The scenario, with what the options change of it; raises ScenarioError."""
    if options.scenario is None:
        raise ScenarioError("command line: a scenario file is missing; see --help")
    if options.scenario.endswith(".py"):
        what = f"{options.scenario} is a program; --init {options.scenario} writes a scenario for it"
        raise ScenarioError(f"command line: {what}")
    overrides = list(options.set)
    if options.stages is not None:
        overrides.append(f"stages=[{options.stages}]")
    if options.sandbox is not None:
        overrides.append(f"emulate.sandbox=[{options.sandbox}]")
    scenario = Scenario.load(options.scenario, overrides)
    for flag, given in (("--sandbox", options.sandbox), ("--attach", options.attach)):
        if given and "emulate" not in scenario.stages:
            raise ScenarioError(f"command line: {flag}: emulate is not among the stages; add it with --stages")
    return scenario
