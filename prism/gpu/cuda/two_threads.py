"""A program on a GPU is two threads that take turns: the main one, and the one in which torch goes backward."""

from __future__ import annotations

import sys
import threading

import torch

from prism.gpu.rank.callsite import site_of
from prism.gpu.rank.link import Link


class TwoThreads(Link):
    """A Link for which both are the main thread: while torch goes backward, that one sleeps."""

    def thread(self) -> int:
        """The main one for both threads of the program."""
        backward: bool = torch._C._current_graph_task_id() != -1
        return self._main if backward else threading.get_ident()

    def _site(self) -> str:
        """Where the program is; in a backward pass the line that began it."""
        return super()._site() or site_of(sys._current_frames().get(self._main))
