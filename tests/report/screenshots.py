"""The pictures of the documentation: parts of reports, as a browser shows them.

    make images         runs the scenarios and takes them all

tests/report/test_browser.py takes the same parts of a report that it made itself.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MAX_BYTES = 150_000
WIDTH = 1180


class Shot(NamedTuple):
    """A picture: its name, the run whose report it is of, the part of the page, and whether it is dark."""

    name: str
    run: str
    part: str
    scheme: str = "light"
    act: str = ""  # a key that is pressed on the timeline first


SHOTS = (
    Shot("report", "quickstart", "top"),
    Shot("timeline", "quickstart", "timeline", act="p"),
    Shot("memory", "will_it_fit", "memory"),
    Shot("memory-ranks", "quickstart", "memory", "dark"),
    Shot("sweeps", "half_network", "sweeps"),
    Shot("diagnosis", "find_the_deadlock", "diagnosis"),
    Shot("thousand", "thousand_ranks", "timeline", "dark"),
)


@contextmanager
def browser() -> Iterator[Any]:
    """The Chromium of the machine, without its window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


def take(opened: Any, report: Path, shot: Shot, folder: Path) -> Path:
    """Take one picture of a report; fails if the part is not there, or the picture is too large for a repository."""
    path = folder / f"{shot.name}.png"
    with opened.new_context(viewport={"width": WIDTH, "height": 900}, color_scheme=shot.scheme) as context:
        page = context.new_page()
        page.goto(report.resolve().as_uri())
        if page.query_selector("#roll"):
            page.wait_for_selector("#roll:not([hidden])")
        if shot.act:
            page.focus("#roll canvas")
            page.keyboard.press(shot.act)
            page.evaluate("document.activeElement.blur()")
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        if shot.part == "top":
            page.screenshot(path=path)
        else:
            page.locator(f"section[aria-labelledby={shot.part}]").screenshot(path=path)
    assert path.stat().st_size <= MAX_BYTES, f"{path.name} has {path.stat().st_size:,} bytes"
    return path


def main(runs: str, folder: str) -> None:
    """Take all pictures of the runs in a folder."""
    with browser() as opened:
        for shot in SHOTS:
            path = take(opened, Path(runs) / shot.run / "report.html", shot, Path(folder))
            print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
