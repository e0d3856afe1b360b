"""A rank's program from its beginning to its end: its iterations, what it is told to suffer, and what is said of how it
went.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from types import TracebackType
from typing import Any, NoReturn

import torch

from prism.core.events import Finished, Noticed, Raised
from prism.gpu.meter.breakdown import Breakdown
from prism.gpu.processes.birth import Birth
from prism.gpu.processes.output import flush
from prism.gpu.rank.callsite import site_of_error, site_of_frames
from prism.gpu.rank.cores import cores
from prism.gpu.rank.faults import Faults
from prism.gpu.rank.link import Link
from prism.gpu.rank.main_module import Ending


class Life:
    """How far the rank's program has come, and how it ends."""

    def __init__(self, birth: Birth, link: Link, meter: Any, breakdown: Breakdown) -> None:
        self._birth = birth
        self._link = link
        self._meter = meter
        self._breakdown = breakdown
        self._faults = Faults(birth.setup.faults, link)
        self._iterations = 0
        self._before = cores()

    def begin(self) -> None:
        """The program, and with it iteration 0, begins."""
        self._faults.begin(0)
        self._link.begin()
        self._before = cores()

    def mark(self) -> None:
        """An iteration has ended; if it was the last one to capture, so has the rank."""
        if self._link.forked:
            return
        self._link.settle_streams()
        self._link.mark()
        self._iterations += 1
        self._breakdown.settle()
        if self._iterations == self._birth.setup.iterations:
            self.end(Ending(), cut=True)
        self._faults.begin(self._iterations)

    def notice(self, kind: str, summary: str) -> None:
        """Something passes here and may mislead."""
        if self._link.forked:
            return
        self._link.tell(Noticed(rank=self._birth.rank, kind=kind, summary=summary))

    def end(self, ending: Ending, cut: bool = False) -> NoReturn:
        """The program is over: say so, stay while there may be sums to do, and exit."""
        if self._link.forked:
            self.exit(ending.code)
        flush()
        self._link.settle_streams()
        self._breakdown.settle()
        for summary in [] if cut else self._faults.missed(self._iterations):
            self.notice("fault_not_reached", summary)
        self._link.conclude()
        self._note_memory()
        had = cores().since(self._before)
        self._link.tell(
            Finished(
                rank=self._birth.rank,
                code=ending.code,
                cut=cut,
                said=_legible(ending.said),
                site=ending.site,
                ran=had.ran,
                queued=had.queued,
                peak_bytes=self._meter.peak_bytes,
                peak_breakdown=self._breakdown.found,
                reserved_bytes=self._meter.reserved_bytes,
            )
        )
        self._link.until_leave()
        self.exit(ending.code)

    def fail(self, error: BaseException) -> NoReturn:
        """The program has raised: say so, and what memory it held, and exit."""
        text = _legible("".join(traceback.format_exception(error.with_traceback(_of_the_program(error.__traceback__)))))
        with contextlib.suppress(OSError, ValueError):  # the program may have closed it
            sys.stderr.write(text)
        if self._link.forked:
            self.exit(1)
        name = type(error).__name__
        if type(error).__module__ not in ("builtins", "__main__"):
            name = f"{type(error).__module__}.{name}"
        short = _out_of_memory(error)
        self._note_memory()
        snapshot = self._meter.snapshot() if short is not None else ""
        site = site_of_error(error)
        self._breakdown.fail(error)
        said = _said(error)
        after = f" (after {type(short).__name__}: {short})" if short is not None and short is not error else ""
        self._link.tell(
            Raised(
                rank=self._birth.rank,
                error=(f"{name}: {said}" if said else name) + after,
                traceback=text,
                site=site,
                peak_bytes=self._meter.peak_bytes,
                peak_breakdown=self._breakdown.found,
                reserved_bytes=self._meter.reserved_bytes,
                snapshot=snapshot,
            )
        )
        self.exit(1)

    def _note_memory(self) -> None:
        if self._link.laps is not None:
            self._link.laps.save()

    def exit(self, code: int) -> NoReturn:
        """Leave at once: threads that still wait must not hold the process."""
        flush()
        os._exit(code)


def _out_of_memory(error: BaseException | None) -> BaseException | None:
    """That memory ran out, if an error is that or comes of it: frameworks wrap it into errors of their own."""
    while error is not None and not isinstance(error, torch.OutOfMemoryError):
        error = error.__cause__ or error.__context__
    return error


def _said(error: BaseException) -> str:
    """What an exception says; one that cannot say it is as Python shows it in a traceback."""
    try:
        return _legible(str(error))
    except Exception:
        return "<exception str() failed>"


def _legible(text: str) -> str:
    """The text with what no message and no file can hold, lone surrogates, written out."""
    return text.encode(errors="backslashreplace").decode()


def _of_the_program(frames: TracebackType | None) -> TracebackType | None:
    """The traceback from the program's first frame on: how it was started says nothing."""
    started = frames
    while started is not None and not site_of_frames([(started.tb_frame.f_code.co_filename, 0)]):
        started = started.tb_next
    return started or frames
