"""The command line: `python -m prism.coordinator SCENARIO.yaml`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec
import uvloop
from rich.console import Console

from prism import __version__
from prism.beginning.first_scenario import begin
from prism.coordinator import Coordinator
from prism.errors import PrismError, ProgramError, ScenarioError
from prism.explaining import explain
from prism.folder import Folder
from prism.live.observer import Observer, Several
from prism.live.serving import Served
from prism.live.terminal import on_standard_error
from prism.run import Interrupted, stage_digests
from prism.scenario import Scenario
from prism.staging import kept
from prism.summary import print_summary

OK, RUN_FAILED, INTERRUPTED = 0, 4, 130


class _Parser(argparse.ArgumentParser):
    """Usage errors are one line, like all others."""

    def error(self, message: str) -> None:  # type: ignore[override]
        raise ScenarioError(f"command line: {message}; see --help")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code of architecture's table: 0, 2, 3, 4 or 130."""
    options = None
    try:
        given, rest = _split(sys.argv[1:] if arguments is None else arguments)
        options = _parser().parse_args(given)
        if options.init is not None:
            return begin(options.init, rest, options.set, options.out, options.quiet)
        if rest:
            raise ScenarioError("command line: `--` and arguments of the program belong to --init; see --help")
        scenario = _scenario(options)
        if options.explain:
            return _explain(scenario, options)
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
    parser.add_argument("--explain", action="store_true", help="say what each stage will do, and run nothing")
    parser.add_argument("--serve", nargs="?", type=_port, const=0, metavar="PORT", help="show the run on a local page")
    first = "write a first scenario after a probe: --init TRAIN.py -- ARGS, or --init torchrun -- TORCHRUN'S ARGS"
    parser.add_argument("--init", metavar="TRAIN.py", help=first)
    parser.add_argument("--version", action="version", version=_versions())
    return parser


def _port(text: str) -> int:
    if not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port, got {text}; the scenario stands before --serve")
    return int(text)


def _versions() -> str:
    """What a report of a bug should say."""
    told = f"prism {__version__}, Python {sys.version.split()[0]}, torch {version('torch')}"
    for name, package in (("CUDA", "nvidia-cuda-runtime"), ("NCCL", "nvidia-nccl-cu13"), ("NCCL", "nvidia-nccl-cu12")):
        with contextlib.suppress(PackageNotFoundError):
            told += f", {name} {version(package)}"
    return told


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """What is the command's, and what follows `--`."""
    arguments = list(arguments)
    at = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:at], arguments[at + 1 :]


def _scenario(options: argparse.Namespace) -> Scenario:
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


def _explain(scenario: Scenario, options: argparse.Namespace) -> int:
    folder = Folder(options.out or Path("runs") / scenario.name)
    done = folder.progress(stage_digests(scenario), kept(scenario))
    for line in explain(scenario, folder, done):
        print(line)
    return OK


def _observer(scenario: Scenario, options: argparse.Namespace) -> tuple[Observer, Served | None]:
    """Who is told how the run goes."""
    iterations = scenario.capture.iterations or 0
    terminal = on_standard_error(options.quiet, iterations)
    if options.serve is None:
        return terminal, None
    served = Served(scenario.name, iterations, options.serve)
    print(f"live view: {served.address}", file=sys.stderr)
    return Several(terminal, served), served


async def _run(scenario: Scenario, options: argparse.Namespace) -> int:
    observer, served = _observer(scenario, options)
    try:
        return await _gone_through(scenario, options, observer)
    finally:
        if served is not None:
            served.close()


async def _gone_through(scenario: Scenario, options: argparse.Namespace, observer: Observer) -> int:
    async with Coordinator(scenario, options.out, resume=options.resume, observer=observer) as run:
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
