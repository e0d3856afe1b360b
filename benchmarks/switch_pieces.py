"""What a switch is made of, each alone: copies of two processes at once, calls that give and take memory, and both."""

from __future__ import annotations

from pathlib import Path

from benchmarks.training_ranks import Found, Rank, ranks

KINDS = ("whole", "pinned", "shared", "huge")
"""Host memory: pinned by torch, copied at once; the same, a slot of the host pool at a time; of a file beside the pool,
pinned as the pool is; private, in huge pages, pinned so."""
GIB_COPIED = 2
ALONE_S, BESIDE_S = 0.3, 2.0
"""How long calls go on by themselves, and beside copies, which take less."""


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
    return {
        "copies": copied, "calls": calls, "calls_of_two": both, "copies_beside_calls": under, "their_calls": during,
    }  # fmt: skip
