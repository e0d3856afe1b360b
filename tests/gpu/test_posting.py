"""Whose time it is while an operation is posted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist

from prism.gpu.group.communicator import Communicator
from prism.gpu.rank.link import Link


class Clocked(Link):
    """A link without a line, whose clock is told; `computed` is what each post says that the program has computed."""

    completing = False

    def __init__(self) -> None:
        self.now = 0
        self.computed: list[int] = []
        self.rank, self.synthesises = 0, False
        self._main, self._arrived = threading.get_ident(), 0

    def lap(self) -> int:
        return self.now

    def resume(self) -> None:
        self.now = 0

    def join(self, group: str, ranks: tuple[int, ...], backend: str) -> None:
        """Nobody has to be told."""

    def save(self, inputs: Any, lasting: bool) -> None:
        """Nobody reads it."""

    def post(self, group: str, call: Any, payload: Any, pending: Any, compute: int, batch: int = 0) -> int:
        self.computed.append(compute)
        return 1


class Splits:
    """Split sizes that take PRISM 500 ns to read."""

    def __init__(self, link: Clocked) -> None:
        self._link = link

    def __iter__(self) -> Iterator[int]:
        self._link.now += 500
        return iter((2, 2))


def exchange(link: Clocked) -> Communicator:
    group = Communicator(link, "default", (0, 1), 0, "gloo", wrap=lambda operation: operation)
    group.all_to_all_single(torch.zeros(4), torch.zeros(4), Splits(link), Splits(link))
    return group


def test_what_prism_makes_of_a_calls_arguments_is_not_the_programs_time() -> None:
    link = Clocked()
    link.now = 1_000
    exchange(link)
    assert link.computed == [1_000]


def test_a_thread_that_is_not_the_main_one_computes_in_nobodys_time() -> None:
    link = Clocked()
    link.now = 1_000
    group = exchange(link)
    thread = threading.Thread(target=group.barrier)
    thread.start()
    thread.join()
    assert link.computed == [1_000, 0]


def pair() -> Communicator:
    return Communicator(Clocked(), "default", (0, 1), 0, "gloo", wrap=lambda operation: operation)


@pytest.mark.parametrize("root", [-1, 2])
def test_a_root_that_the_group_does_not_have_is_refused(root: int) -> None:
    options = dist.BroadcastOptions()
    options.rootRank = root
    with pytest.raises(RuntimeError, match=f"broadcast: invalid root rank: {root}; the group has 2 ranks"):
        pair().broadcast([torch.zeros(1)], options)


@pytest.mark.parametrize("peer", [-2, 2])
def test_a_peer_that_the_group_does_not_have_is_refused(peer: int) -> None:
    with pytest.raises(RuntimeError, match=f"send_recv: invalid rank: {peer}; the group has 2 ranks"):
        pair().send([torch.zeros(1)], peer)


def test_a_list_that_is_not_as_long_as_the_group_is_refused() -> None:
    with pytest.raises(ValueError, match="all_gather: expected a tensor for each of the group's 2 ranks, got 3"):
        pair().allgather([[torch.zeros(1)] * 3], [torch.zeros(1)])
