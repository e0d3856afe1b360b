"""In what the members of an operation disagree, told by rank and not by who came first."""

from __future__ import annotations

from prism.core.graph import OpKind
from prism.core.stage.op import UNEVEN, Op, Post


def disagreement(op: Op) -> str:
    """In what the members of a broken operation disagree, told by rank and not by who came first."""
    first, *others = (op.posts[member] for member in sorted(op.posts))
    return next((text for post in others if (text := differs(first, post))), op.broken)


def differs(first: Post, post: Post) -> str:
    """Two members name the same operation, type, reduction and root, and (where they must) the same size."""
    theirs, ours = first.call, post.call
    told: list[tuple[str, object, object]] = [
        ("operation", theirs.name, ours.name),
        ("dtype", theirs.dtype, ours.dtype),
        ("reduction", theirs.reduce, ours.reduce),
        ("root", theirs.root, ours.root),
    ]
    if ours.kind not in UNEVEN:
        told.append(("elements", theirs.count, ours.count))
    if ours.kind is OpKind.REDUCE_SCATTER:
        told.append(("sizes", list(theirs.send), list(ours.send)))
    if ours.kind is OpKind.SEND_RECV:
        return ""  # two sides of a message differ by nature
    for what, a, b in told:
        if a != b:
            return f"{what}: rank {first.rank} has {a}, rank {post.rank} has {b}"
    return ""


def scatter_disagreement(op: Op, root: Post) -> str:
    size = len(op.members)
    for post in (op.posts[member] for member in sorted(op.posts)):
        if post is not root and post.call.count * size != root.call.count:
            return (
                f"elements: rank {root.rank} scatters {root.call.count} over {size} ranks, "
                f"rank {post.rank} awaits {post.call.count}"
            )
    return ""
