"""The command line: `python -m prism.coordinator SCENARIO.yaml`."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import msgspec
import uvloop
from rich.console import Console

from prism import __version__
from prism.coordinator import Coordinator
from prism.errors import PrismError, ProgramError, ScenarioError
from prism.progress import observer
from prism.run import Interrupted
from prism.scenario import Scenario
from prism.summary import print_summary

OK, RUN_FAILED, INTERRUPTED = 0, 4, 130
NOT_YET = {"--init": "init", "--serve": "serve", "--explain": "explain"}


class _Parser(argparse.ArgumentParser):
    """Usage errors are one line, like all others."""

    def error(self, message: str) -> None:  # type: ignore[override]
        raise ScenarioError(f"command line: {message}; see --help")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code of architecture's table: 0, 2, 3, 4 or 130."""
    options = None
    try:
        options = _parser().parse_args(arguments)
        scenario = _scenario(options)
        return uvloop.run(_run(scenario, options))
    except PrismError as error:
        print(f"prism: {error}" if error.exit_code != 2 else error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if options is not None and options.verbose:
            raise
        print(f"prism: internal error: {type(error).__name__}: {error}; -v shows where", file=sys.stderr)
        return RUN_FAILED


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m prism.coordinator",
        description="Run a scenario: capture the program's dependency graph, calibrate it, replay it, report.",
        epilog="exit codes: 0 done; 2 bad scenario or usage; 3 the program failed; 4 the run failed; 130 interrupted",
    )
    parser.add_argument("scenario", nargs="?", metavar="SCENARIO.yaml", help="the scenario file")
    parser.add_argument("--stages", metavar="NAME,...", help="stages to run instead of the scenario's")
    parser.add_argument("--set", action="append", default=[], metavar="KEY.PATH=VALUE", help="override a key")
    parser.add_argument("--out", type=Path, metavar="DIR", help="output folder (default: runs/<name>)")
    parser.add_argument("--resume", action="store_true", help="use finished stages of the output folder again")
    parser.add_argument("--json", action="store_true", help="print result.json instead of the summary")
    parser.add_argument("--sandbox", metavar="RANK,...", help="sandbox ranks instead of the scenario's")
    parser.add_argument("--attach", action="store_true", help="let the sandbox ranks wait for a debugger")
    loudness = parser.add_mutually_exclusive_group()
    loudness.add_argument("-q", "--quiet", action="store_true", help="no progress")
    loudness.add_argument("-v", "--verbose", action="store_true", help="tracebacks of internal errors")
    for flag in NOT_YET:
        parser.add_argument(flag, nargs="?", const=True, help=argparse.SUPPRESS)
    versions = f"prism {__version__}, Python {sys.version.split()[0]}, torch {version('torch')}"
    parser.add_argument("--version", action="version", version=versions)
    return parser


def _scenario(options: argparse.Namespace) -> Scenario:
    for flag, name in NOT_YET.items():
        if getattr(options, name) is not None:
            raise ScenarioError(f"command line: {flag} is not available yet")
    if options.scenario is None:
        raise ScenarioError("command line: a scenario file is missing; see --help")
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


async def _run(scenario: Scenario, options: argparse.Namespace) -> int:
    async with Coordinator(scenario, options.out, resume=options.resume, observer=observer(options.quiet)) as run:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, run.interrupt)
        code = await _stages(run, scenario, options.attach)
    if options.json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(run.result), indent=2) + b"\n")
    else:
        print_summary(run.result, run.folder, Console(width=None if sys.stdout.isatty() else 100))
    return code


async def _stages(run: Coordinator, scenario: Scenario, attach: bool) -> int:
    """Run the scenario's stages in their order; returns the exit code."""
    try:
        graph = None
        if "capture" in scenario.stages:
            graph = await run.capture()
        if "calibrate" in scenario.stages:
            graph = await run.calibrate(graph if graph is not None else run.load_graph("capture"))
        if "replay" in scenario.stages:
            run.replay(graph if graph is not None else run.load_graph("calibrate"))
        if "emulate" in scenario.stages:
            await run.emulate(graph if graph is not None else run.load_graph("calibrate"), attach=attach)
    except Interrupted:
        return INTERRUPTED
    except ProgramError as error:
        if run.result.diagnosis is None:
            print(f"prism: {error}", file=sys.stderr)
        return error.exit_code
    return OK
