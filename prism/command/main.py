"""The command line: `python -m prism.coordinator SCENARIO.yaml`."""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import uvloop
from rich.console import Console

from prism.command.beginning.first_scenario import begin
from prism.command.completing import offer
from prism.command.explaining import explain
from prism.command.summary import print_summary
from prism.command.versions import versions
from prism.coordinator import Coordinator
from prism.errors import PrismError, ProgramError, RunError, ScenarioError
from prism.folder import Folder
from prism.gpu.processes.limits import allow_files
from prism.live.observer import Observer, Several
from prism.live.terminal import on_standard_error
from prism.run import Interrupted, stage_digests
from prism.scenario import Scenario
from prism.stages.staging import kept

if TYPE_CHECKING:
    from prism.live.serving import Served

OK, RUN_FAILED, INTERRUPTED = 0, 4, 130


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
        sys.exit(OK)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code of architecture's table: 0, 2, 3, 4 or 130."""
    _open_streams()
    options = None
    try:
        options, rest = _options(sys.argv[1:] if arguments is None else arguments)
        if options.init is not None:
            return begin(options.init, rest, options.set, options.out, options.quiet)
        scenario = _scenario(options)
        if options.explain:
            return _explain(scenario, options)
        if reason := allow_files():
            raise RunError(reason)
        return uvloop.run(_run(scenario, options))
    except PrismError as error:
        print(f"prism: {error}" if error.exit_code != 2 else error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # who reads has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return RUN_FAILED
    except Exception as error:
        if options is not None and options.verbose:
            raise
        print(f"prism: {_unforeseen(error)}; -v shows where", file=sys.stderr)
        return RUN_FAILED


def _open_streams() -> None:
    """Let streams that were closed lead nowhere, lest other files get their numbers, and show what has no letter."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
            setattr(sys, name, os.fdopen(number, "w" if number else "r"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _unforeseen(error: Exception) -> str:
    """What the system refused, or else an error of ours."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return f"internal error: {type(error).__name__}: {error}"


def run() -> None:
    """The command `prism`."""
    sys.exit(main())


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
    parser.add_argument(
        "--json", action="store_true", help="print result.json instead of the summary; with --explain, what that says"
    )
    parser.add_argument("--sandbox", metavar="RANK,...", help="sandbox ranks instead of the scenario's")
    parser.add_argument("--attach", action="store_true", help="let the sandbox ranks wait for a debugger")
    loudness = parser.add_mutually_exclusive_group()
    loudness.add_argument("-q", "--quiet", action="store_true", help="no progress")
    loudness.add_argument("-v", "--verbose", action="store_true", help="tracebacks of internal errors")
    parser.add_argument("--explain", action="store_true", help="say what each stage will do, and run nothing")
    parser.add_argument("--serve", nargs="?", type=_port, const=0, metavar="PORT", help="show the run on a local page")
    first = "write a first scenario after a probe: --init TRAIN.py -- ARGS, or --init torchrun -- TORCHRUN'S ARGS"
    parser.add_argument("--init", metavar="TRAIN.py", help=first)
    parser.add_argument("--version", action=_Version, help="what a report of a bug should say")
    return parser


def _options(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """What is given to the command, and the program's arguments that follow `--`; raises ScenarioError."""
    parser = _parser()
    offer(parser)
    given, rest = _split(arguments)
    options, unknown = parser.parse_known_args(given)
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
    explanation = explain(scenario, folder, done, folder.noted())
    if options.json:
        _print_json(explanation)
    else:
        print(*explanation.lines(), sep="\n")
    return OK


def _print_json(value: msgspec.Struct) -> None:
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def _observer(scenario: Scenario, options: argparse.Namespace) -> tuple[Observer, Served | None]:
    """Who is told how the run goes."""
    iterations = scenario.capture.iterations or 0
    terminal = on_standard_error(options.quiet, iterations)
    if options.serve is None:
        return terminal, None
    from prism.live.serving import Served  # not in every run: it loads an HTTP server

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
        for number in _endings():
            loop.add_signal_handler(number, run.interrupt)
        code = await _stages(run, scenario, options.attach)
    if options.json:
        _print_json(run.result)
    else:
        print_summary(run.result, run.folder, Console(width=None if sys.stdout.isatty() else 100))
    return code


def _endings() -> list[signal.Signals]:
    """The signals that end a run in order: Ctrl-C, kill, and a terminal that is gone, unless nohup has that ignored."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *([] if ignored else [signal.SIGHUP])]


async def _stages(run: Coordinator, scenario: Scenario, attach: bool) -> int:
    """Run the scenario's stages in their order; returns the exit code."""
    stages = scenario.stages
    try:
        graph = None
        if "calibrate" not in stages and ("replay" in stages or "emulate" in stages):
            graph = run.load_graph("calibrate")  # first: a capture that runs again leaves no calibration
        if "capture" in stages:
            graph = await run.capture()
        if "calibrate" in stages:
            graph = await run.calibrate(graph if graph is not None else run.load_graph("capture"))
        if "replay" in stages and graph is not None:
            run.replay(graph)
        if "emulate" in stages and graph is not None:
            await run.emulate(graph, attach=attach)
    except Interrupted:
        return INTERRUPTED
    except ProgramError as error:
        if run.result.diagnosis is None:
            print(f"prism: {error}", file=sys.stderr)
        return error.exit_code
    return OK
