"""Whose rules hold on a group: what gloo and NCCL do differently, as far as a program can tell.

Sources: what runs on real gloo showed (torch 2.13), NCCL's documentation of point-to-point calls and groups, and the
issue trackers of both; docs/semantics.md has the table with its sources.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rules:
    """One backend's rules.

    tags: messages match by tag, else by order alone. long_receive: a receive may be longer than its message, and keeps
    its tail. one_work: a batch of messages gives one work object, not one a message. wait_once: a second wait on a
    message never returns. ordered: the operations of one rank run in the order of their posts, on whatever group.
    """

    tags: bool
    long_receive: bool
    one_work: bool
    wait_once: bool
    ordered: bool


RULES = {
    "gloo": Rules(tags=True, long_receive=True, one_work=False, wait_once=True, ordered=False),
    "nccl": Rules(tags=False, long_receive=False, one_work=True, wait_once=False, ordered=True),
}

LARGE_BATCH = 256
"""Messages of one rank in one NCCL batch above which NCCL may plan them differently on different ranks."""


def rules(backend: str) -> Rules:
    """The rules of a backend; those that nobody knows better than gloo's."""
    return RULES.get(backend, RULES["gloo"])
