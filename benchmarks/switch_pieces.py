"""What a switch is made of, each alone: copies of two processes at once, calls that give and take memory, and both."""

from __future__ import annotations

from pathlib import Path

from benchmarks.training_ranks import Found, Rank, ranks

KINDS = ("whole", "pinned", "shared", "huge")
"""Host memory: pinned by torch, copied at once; the same, a slot of the host pool at a time; of a file beside the pool,
pinned as the pool is; private, in huge pages, pinned so."""
SHAPES = {"32 MiB": "32 1 1", "4 x 32 MiB in one call": "32 4 1", "128 MiB": "128 1 1", "32 MiB, 2 threads": "32 1 2"}
"""What is opened: MiB of a handle, handles that one call opens, and threads that do so at one time."""
BESIDE: dict[str, tuple[tuple[str, ...], bool]] = {
    "nothing": ((), False),
    "copies back of its own": ((), True),
    "copies out": (("out",), False),
    "copies out, singly": (("singly",), False),
    "copies back": (("back",), False),
    "copies back of its own and copies out": (("out",), True),
}
"""What goes on meanwhile: in which ways other processes copy, and whether the one that opens copies back itself. The
last is what one meets that comes in while another goes out."""
GIB_COPIED = 2
ALONE_S, BESIDE_S = 0.3, 2.0
"""How long calls go on by themselves, and beside copies, which take less."""
OPENED_S = 0.12
TIMES = 6
"""How long openings go on, and how often those copy meanwhile that do: for twice as long."""


def rate(one: Rank, other: Rank, kind: str, gib: int, rounds: int = 3) -> Found:
    """GB/s of copies of two processes, one in each direction, from and to host memory of a kind."""
    both: list[tuple[float, dict[str, float]]] = []
    done = list[Found]()
    for _ in range(rounds):
        one.tell(f"copies {kind} out {gib} 3")
        other.tell(f"copies {kind} back {gib} 3")
        done = [one.answer(), other.answer()]
        span = max(each["end"] for each in done) - min(each["begin"] for each in done)
        alone = [each["bytes"] / (each["end"] - each["begin"]) / 1e9 for each in done]
        both.append((sum(each["bytes"] for each in done) / span / 1e9, dict(zip(("out", "back"), alone, strict=True))))
    fastest, ways = max(both, key=lambda one: one[0])
    huge = min(each["huge_bytes"] for each in done)
    return {"gb_per_s": fastest, "ways": ways, "all": [each for each, _ in both], "huge_bytes": huge}


def pieces(folder: Path, library: Path) -> Found:
    """Which of them is slow: pages of host memory, calls of the driver, or copies while others make such calls."""
    with ranks(folder, library, library, library, layers=1) as (one, other, beside):
        copied = {kind: rate(one, other, kind, GIB_COPIED) for kind in KINDS}
        calls = beside.do(f"calls {GIB_COPIED} {ALONE_S}")
        one.tell(f"calls {GIB_COPIED} {ALONE_S}")
        both = [beside.do(f"calls {GIB_COPIED} {ALONE_S}"), one.answer()]
        beside.tell(f"calls {GIB_COPIED} {BESIDE_S}")
        under = rate(one, other, "shared", GIB_COPIED, rounds=2)
        during = beside.answer()
        opened = {
            what: {shape: opening(words, beside, (one, other), *meanwhile) for shape, words in SHAPES.items()}
            for what, meanwhile in BESIDE.items()
        }
    return {
        "copies": copied, "calls": calls, "calls_of_two": both, "copies_beside_calls": under, "their_calls": during,
        "openings": opened,
    }  # fmt: skip


def opening(shape: str, opener: Rank, others: tuple[Rank, Rank], ways: tuple[str, ...], own: bool) -> Found:
    """What it takes to open memory of this shape while others copy in these ways, and the opener too if `own`."""
    copying = list(zip(others, ways, strict=False))
    for other, way in copying:
        other.tell(f"copies huge {way} {GIB_COPIED} {TIMES}")
    found = opener.do(f"opens {shape} {2 * OPENED_S if own else 0} {OPENED_S}")
    until = [other.answer() for other, _ in copying]
    return {**found, "others_end": [each["end"] for each in until]}
