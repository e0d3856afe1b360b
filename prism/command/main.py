"""The command line: `python -m prism.coordinator SCENARIO.yaml`."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop
from rich.console import Console

from prism.command.beginning.first_scenario import begin
from prism.command.explaining import explain
from prism.command.options import read_options, read_scenario
from prism.command.streams import Streams, print_json, reader_may_leave
from prism.command.summary import print_summary
from prism.coordinator import Coordinator
from prism.errors import PrismError, ProgramError, RunError
from prism.folder import Folder
from prism.gpu.processes.limits import allow_files
from prism.live.observer import Observer, Several
from prism.live.terminal import on_standard_error
from prism.run import Interrupted, stage_digests
from prism.scenario import Scenario
from prism.stages.staging import needed

if TYPE_CHECKING:
    from prism.live.serving import Served

OK, RUN_FAILED, INTERRUPTED = 0, 4, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code of architecture's table: 0, 2, 3, 4 or 130."""
    streams, options = Streams(), None
    try:
        options, rest = read_options(sys.argv[1:] if arguments is None else arguments)
        if options.init is not None:
            return begin(options.init, rest, options.set, options.out, options.quiet)
        scenario = read_scenario(options)
        if options.explain:
            return _explain(scenario, options)
        if reason := allow_files():
            raise RunError(reason)
        return uvloop.run(_run(scenario, options, streams))
    except PrismError as error:
        print(f"prism: {error}" if error.exit_code != 2 else error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if options is not None and options.verbose:
            raise
        print(f"prism: {_unforeseen(error)}; -v shows where", file=sys.stderr)
        return RUN_FAILED


def _unforeseen(error: Exception) -> str:
    """What the system refused, or else an error of ours."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return f"internal error: {type(error).__name__}: {error}"


def run() -> None:
    """The command `prism`."""
    sys.exit(main())


def _explain(scenario: Scenario, options: argparse.Namespace) -> int:
    folder = Folder(options.out or Path("runs") / scenario.name)
    done = folder.progress(stage_digests(scenario), needed(scenario))
    explanation = explain(scenario, folder, done, folder.noted())
    with reader_may_leave():
        if options.json:
            print_json(explanation)
        else:
            print(*explanation.lines(), sep="\n")
    return OK


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


async def _run(scenario: Scenario, options: argparse.Namespace, streams: Streams) -> int:
    observer, served = _observer(scenario, options)
    try:
        return await _gone_through(scenario, options, observer, streams)
    finally:
        if served is not None:
            served.close()


async def _gone_through(
    scenario: Scenario, options: argparse.Namespace, observer: Observer, streams: Streams
) -> int:
    async with Coordinator(scenario, options.out, resume=options.resume, observer=observer) as run:
        _let_signals_end(run, streams)
        code = await _stages(run, scenario, options.attach)
    with reader_may_leave():
        if options.json:
            print_json(run.result)
        else:
            print_summary(run.result, run.folder, Console(width=None if sys.stdout.isatty() else 100))
    return code


def _let_signals_end(run: Coordinator, streams: Streams) -> None:
    """Ctrl-C, kill, and a terminal that is gone, unless nohup has that ignored, end a run in order."""

    def leave() -> None:
        streams.hang_up()
        run.interrupt()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, run.interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, leave)


async def _stages(run: Coordinator, scenario: Scenario, attach: bool) -> int:
    """Run the scenario's stages in their order; returns the exit code."""
    stages = scenario.stages
    try:
        graph = None
        if "calibrate" not in stages and ("replay" in stages or "emulate" in stages):
            graph = run.load_graph("calibrate")  # with its capture; one that ran again would leave none
        if "capture" in stages and graph is None:
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
