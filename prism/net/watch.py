"""Plain ZeroMQ sockets on an asyncio loop: no thread, no future for each message, one wake-up for a whole batch.

A ZeroMQ socket has a file descriptor that becomes readable when *something* may have happened inside the socket, and
any call into the socket, a send included, may take that sign away. So the descriptor only says "look", looking means
receiving until nothing is left, and whoever sends looks again afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import zmq

CURVE_OVERHEAD = 64
"""What CURVE adds to a frame in bytes, rounded up; 33 are the command's name, nonce, authenticator and flags."""

GONE_S = 120
"""After so long a host that is gone without a word is missed, whether there was something to say to it or not. Kernels
ask and answer, so a process that is stopped is not missed by this."""
TCP = {
    zmq.TCP_MAXRT: GONE_S * 1000,  # what has not been acknowledged by then never will be
    zmq.TCP_KEEPALIVE: 1,
    zmq.TCP_KEEPALIVE_IDLE: GONE_S // 2,
    zmq.TCP_KEEPALIVE_INTVL: GONE_S // 8,
    zmq.TCP_KEEPALIVE_CNT: 4,
}


def open_socket(kind: int, limit: int) -> zmq.Socket[bytes]:
    """A socket with unbounded queues, in a context of its own since an authenticator serves a whole context."""
    socket: zmq.Socket[bytes] = zmq.Context().socket(kind)
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.LINGER, 0)  # an answered goodbye says that all has arrived; a dead peer must not hold us
    for option, value in TCP.items():
        socket.setsockopt(option, value)
    socket.setsockopt(zmq.MAXMSGSIZE, limit + CURVE_OVERHEAD)
    return socket


def shut_socket(socket: zmq.Socket[bytes]) -> None:
    """Close a socket with its context; does not wait for anything unsent."""
    context = socket.context
    socket.close()
    context.term()


def events(socket: zmq.Socket[bytes]) -> int:
    """What can be done without waiting, a mask of POLLIN and POLLOUT; whoever asks has to act on all of the answer."""
    return int(socket.getsockopt(zmq.EVENTS))


def received(socket: zmq.Socket[bytes]) -> Iterator[list[bytes]]:
    """The messages that can be received without waiting."""
    while events(socket) & zmq.POLLIN:
        yield socket.recv_multipart(zmq.NOBLOCK)


class Watch:
    """Calls `look` whenever something may have happened on a socket; belongs to the running loop."""

    def __init__(self, socket: zmq.Socket[bytes], look: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._fd = int(socket.getsockopt(zmq.FD))
        self._look = look
        self._again: asyncio.Handle | None = None
        self._loop.add_reader(self._fd, look)
        self.again()

    def again(self) -> None:
        """Look once more, on the next turn of the loop; to be called after every send."""
        if self._again is None:
            self._again = self._loop.call_soon(self._look_again)

    def close(self) -> None:
        """Stop watching; must come before the socket is closed."""
        self._loop.remove_reader(self._fd)
        if self._again is not None:
            self._again.cancel()

    def _look_again(self) -> None:
        self._again = None
        self._look()
