"""How much peers may say: what is above is refused with a word, so that nobody fills another's memory or files.

Tensors do not travel in messages; what is large is the record of long ranks and the routes of wide operations.
"""

from __future__ import annotations

from prism.errors import RunError

MAX_MESSAGE = 64 << 20
"""Bytes of one message of the transport."""
MAX_PART = 8 << 20
"""Bytes of a part of a longer message: between parts other peers are heard."""
MAX_WHOLE = 1 << 30
"""Bytes of one message in all its parts, and of one frame between a worker and a rank."""
MAX_UNREAD = 2 << 30
"""Bytes that one peer may have said and nobody has taken up: one that says more is dropped."""
MAX_UNNAMED = 256
"""Connections that have not said who they are; with more, the oldest of them are dropped."""
HANDSHAKE_S = 15
"""How long a connection may take to prove that it has the keys of the run; a worker on a full machine takes seconds."""


class MessageTooLarge(RunError):
    """A message exceeds a limit."""


def check_size(data: bytes, limit: int) -> None:
    """Raise MessageTooLarge if `data` has more than `limit` bytes."""
    if len(data) > limit:
        raise MessageTooLarge(f"a message of {len(data)} bytes exceeds the limit of {limit}; send it in parts")
