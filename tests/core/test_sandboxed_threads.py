"""Sandbox ranks whose threads post at other moments than in the capture: an operation is the one of its step."""

from __future__ import annotations

import pytest

from prism.core.emulation.sandboxed import Sandboxed
from prism.core.events import Finished, Marked, Posted, Timed
from prism.core.stage.answers import Diverged
from prism.core.stage.building import build_graph
from tests.core.actors import all_reduce, barrier, joined, posted, waited
from tests.core.captures import capture, post, wait

RANKS = range(3)
LATE = [("default", 1), ("default", 2), ("saving", 3)]
EARLY = [("saving", 1), ("default", 2), ("default", 3)]


def captured(*sandbox: int, recorded: bool = True) -> Sandboxed:
    """Ranks that reduce twice, wait for both sums and end an iteration; in between another thread has a barrier."""
    made = capture(len(RANKS), "default", "saving", backend="gloo")
    for handle, group in enumerate(("default", "saving", "default"), start=1):
        for rank in RANKS:
            if group == "saving":
                made.post(posted(rank, handle, barrier(), group, main=False))
            else:
                post(made, rank, handle, all_reduce())
    for rank in RANKS:
        for handle in (1, 3):
            wait(made, rank, handle)
        made.mark(Marked(rank=rank))
    records = {rank: made.records[rank] for rank in sandbox if recorded}
    emulated = Sandboxed(build_graph(made.records, made.matcher), sandbox, records)
    for rank in sandbox:
        for group in ("default", "saving"):
            emulated.join(joined(rank, RANKS, group))
    return emulated


def posts(emulated: Sandboxed, rank: int, *order: tuple[str, int]) -> list[tuple[str, int]]:
    """The rank posts on these groups under these handles; returns which operation of which group each is."""
    for group, handle in order:
        emulated.post(of_group(rank, group, handle))
    ops = [emulated.find(rank, handle) for _, handle in order]
    return [(op.group.name, op.seq) for op in ops if op is not None]


def of_group(rank: int, group: str, handle: int) -> Posted:
    if group == "saving":
        return posted(rank, handle, barrier(), group, main=False)
    return posted(rank, handle, all_reduce(), group, compute=10 * handle)


def test_another_thread_may_post_later_than_in_the_capture() -> None:
    emulated = captured(0)
    assert posts(emulated, 0, *LATE[:2]) == [("default", 0), ("default", 1)]
    for handle in (1, 2):
        emulated.wait(waited(0, handle, blocks=False, compute=handle))
    emulated.mark(Marked(rank=0, compute=3, wall=7))
    assert not emulated.complete(0)
    assert posts(emulated, 0, LATE[2]) == [("saving", 0)]
    assert emulated.complete(0)
    assert emulated.segments(0).durations == [10, 0, 20, 1, 2, 3]
    assert emulated.walls(0) == [7]


def test_another_thread_may_post_earlier_than_in_the_capture() -> None:
    emulated = captured(0)
    assert posts(emulated, 0, *EARLY) == [("saving", 0), ("default", 0), ("default", 1)]
    emulated.wait(waited(0, 2, blocks=False))
    with pytest.raises(Diverged, match=r"then a wait for its operations \[3\] .*; now .* operations \[1\]"):
        emulated.wait(waited(0, 1, blocks=False))


def test_a_lane_tells_no_threads_apart_so_what_another_one_posts_may_only_be_early() -> None:
    assert len(posts(captured(0, recorded=False), 0, *EARLY)) == 3
    with pytest.raises(Diverged, match=r"then barrier .* on group saving at \?; now all_reduce"):
        posts(captured(0, recorded=False), 0, *LATE)


def test_sandbox_ranks_meet_in_an_operation_whatever_the_order_of_their_threads() -> None:
    emulated = captured(0, 2)
    posts(emulated, 0, *LATE)
    posts(emulated, 2, *EARLY)
    met = [(emulated.find(0, of_0), emulated.find(2, of_2)) for of_0, of_2 in ((1, 2), (2, 3), (3, 1))]
    assert all(one is other for one, other in met)
    assert [sorted(op.posts) for op, _ in met if op is not None] == [[0, 2]] * 3


def test_the_order_of_the_main_thread_counts() -> None:
    emulated = captured(0)
    with pytest.raises(Diverged, match=r"now the end of an iteration$"):
        emulated.mark(Marked(rank=0))


def test_device_times_belong_to_the_steps_as_they_were_told() -> None:
    emulated = captured(0)
    posts(emulated, 0, *LATE)
    emulated.timed(Timed(rank=0, first=0, durations=(7, 8, -1), walls=()))
    assert emulated.segments(0).durations == [7, 0, 8]


def test_a_program_that_ends_before_its_thread_has_posted_has_diverged() -> None:
    emulated = captured(0)
    posts(emulated, 0, *LATE[:2])
    with pytest.raises(Diverged, match=r"then barrier .* on group saving .*; now the end of the program$"):
        emulated.finish(Finished(rank=0, code=0))


def test_a_rank_that_is_cut_has_no_times_of_what_its_main_thread_had_still_to_do() -> None:
    emulated = captured(0)
    posts(emulated, 0, EARLY[0])
    assert emulated.segments(0).durations == []
    posts(emulated, 0, ("default", 2))
    assert emulated.segments(0).durations == [20, 0]
