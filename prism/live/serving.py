"""The live view on a local page: where the ranks stand now, and how they went so far.

The page is served to this machine only, to those who have the token that its address carries; nothing can be asked for
but the page and what it shows.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import msgspec

from prism.core.stage.world import World
from prism.errors import RunError
from prism.live.snapshot import Snapshot, Watch
from prism.report.templates import live_page

MAX_RANKS = 512
"""Rows that the page shows; of more, evenly spaced ones."""
MAX_MOMENTS = 600
"""Columns; once they are full, every second one goes."""


class History(msgspec.Struct):
    """What the page shows: the stages so far, the last moment, and the letters of the ranks at earlier ones."""

    scenario: str
    ended: list[tuple[str, str, float]] = []  # stage, status, seconds
    now: Snapshot | None = None
    ranks: list[int] = []
    moments: list[str] = []
    every: int = 1  # looks from one moment to the next
    said: list[str] = []


class Served:
    """An observer that a browser can look over the shoulder of."""

    def __init__(self, scenario: str, iterations: int, port: int = 0) -> None:
        self._watch = Watch(iterations)
        self._history = History(scenario)
        self._looks = 0
        self._fresh = True  # what is shown is of the stage before, until there is something of this one
        self._lock = threading.Lock()
        self._token = secrets.token_urlsafe(16)
        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        except OSError as error:
            raise RunError(f"--serve {port}: {error.strerror}; choose another port, or none for any") from None
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="prism-serve", daemon=True).start()

    @property
    def address(self) -> str:
        """What to open."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/?token={self._token}"

    def close(self) -> None:
        """Serve no longer."""
        self._server.shutdown()
        self._server.server_close()

    # -- what happens ------------------------------------------------------------------------------------------------

    def begin(self, stage: str) -> None:
        self._watch.begin(stage)
        with self._lock:
            self._history.now, self._fresh = self._watch.now, True

    def step(self, done: int, total: int) -> None:
        self._watch.step(done, total)

    def watch(self, world: World) -> None:
        seen = self._watch.look(world)
        if seen is None:
            return
        ranks = list(world.ranks)[:: -(-len(world.ranks) // MAX_RANKS)]
        with self._lock:
            if self._fresh or ranks != self._history.ranks:  # another stage, or another slice
                self._history.ranks, self._history.moments, self._history.every = ranks, [], 1
                self._fresh = False
            self._history.now = seen
            self._looks += 1
            if self._looks % self._history.every == 0:
                self._history.moments.append(seen.states[:: -(-len(world.ranks) // MAX_RANKS)])
            if len(self._history.moments) > MAX_MOMENTS:
                self._history.moments, self._history.every = self._history.moments[::2], 2 * self._history.every

    def say(self, text: str) -> None:
        with self._lock:
            self._history.said.append(text)

    def end(self, stage: str, status: str, wall_s: float) -> None:
        with self._lock:
            self._history.ended.append((stage, status, wall_s))

    # -- what is served ----------------------------------------------------------------------------------------------

    def answer(self, target: str) -> tuple[HTTPStatus, str, bytes]:
        """The status, type and body for a request."""
        address = urlsplit(target)
        token = parse_qs(address.query).get("token", [""])[0]
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            return HTTPStatus.FORBIDDEN, "text/plain", b"the token of the address is missing or wrong\n"
        if address.path == "/":
            return HTTPStatus.OK, "text/html; charset=utf-8", live_page().encode()
        if address.path == "/now":
            with self._lock:
                return HTTPStatus.OK, "application/json", msgspec.json.encode(self._history)
        return HTTPStatus.NOT_FOUND, "text/plain", b"there is / and /now\n"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        served = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, kind, body = served.answer(self.path)
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Cache-Control", "no-store")
                self.send_header("Referrer-Policy", "no-referrer")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Requests are nobody's news."""

        return Handler
