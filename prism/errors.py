"""Errors by blame: whose mistake it is decides the class, and the class decides the exit code."""

from __future__ import annotations


class PrismError(Exception):
    """Base of all errors that PRISM raises on purpose."""

    exit_code = 4


class ScenarioError(PrismError):
    """The scenario, trace or command line is wrong; the text reads `file:line: $.path: what, and the fix`."""

    exit_code = 2


class ProgramError(PrismError):
    """The training program failed or would fail at this scale; the run's diagnosis says how."""

    exit_code = 3


class PreloadError(ProgramError):
    """What the scenario preloads for all ranks cannot be imported; `traceback` has the whole."""

    def __init__(self, reason: str, traceback: str) -> None:
        super().__init__(reason)
        self.traceback = traceback


class ProtocolError(PrismError):
    """A peer said something that the protocol does not allow."""


class RunError(PrismError):
    """The world around the run failed: a worker was lost, a disk is full, a device is missing."""


class InvalidTransition(PrismError):
    """A state machine met an event that its table does not have: a bug of ours, told with the rank's story."""
