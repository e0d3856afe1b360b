"""The report in a browser: it opens, is moved in, searched and sorted, and tells a screen reader what it shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report.test_html import stuck

from prism.core.laps import LAP, LapEnd
from prism.report.html import render_html
from prism.report.surroundings import Surroundings
from prism.result import RankResult
from tests.report.pages import page_of
from tests.report.screenshots import CHROMIUM, SHOTS, take
from tests.report.screenshots import browser as opened_browser

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: install the package chromium")


@dataclass
class Open:
    """A page that is open, and what it said and asked for."""

    page: Any
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    @property
    def told(self) -> str:
        return str(self.page.text_content("#roll output"))

    def rank_at(self, x: int, y: int) -> str:
        """The row that is told of when a place of the timeline is clicked."""
        self.page.click("#roll canvas", position={"x": x, "y": y})
        return self.told.partition(":")[0]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with opened_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page_of(replicas=1))
    return path


@pytest.fixture
def shown(browser: Any, small: Path) -> Iterator[Open]:
    with browser.new_context(viewport={"width": 1180, "height": 900}) as context:
        yield opened_in(context, small)


def opened_in(context: Any, path: Path) -> Open:
    seen = Open(context.new_page())
    seen.page.on("console", lambda message: seen.said.append(message.text))
    seen.page.on("pageerror", lambda error: seen.said.append(str(error)))
    seen.page.on("request", lambda request: seen.asked.append(request.url))
    seen.page.goto(path.as_uri())
    seen.page.wait_for_selector("#roll:not([hidden])")
    return seen


def test_it_opens_without_a_word_and_asks_for_nothing(shown: Open, small: Path) -> None:
    assert shown.said == []
    assert shown.asked == [small.as_uri()]
    assert shown.page.query_selector(".still") is None, "the picture has made room"


def test_it_says_what_part_of_the_prediction_is_seen(shown: Open) -> None:
    assert shown.page.inner_text("#roll > p >> nth=0") == "The last iteration of the prediction."


def test_one_zooms_moves_and_comes_back(shown: Open) -> None:
    page = shown.page
    before = page.screenshot()
    page.focus("#roll canvas")
    page.keyboard.press("w")
    page.keyboard.press("w")
    zoomed = settled(page)
    assert zoomed != before
    page.keyboard.press("d")
    moved = settled(page)
    assert moved != zoomed
    page.keyboard.press("a")
    assert settled(page) == zoomed
    page.click("[data-act=all]")
    page.focus("#roll canvas")
    page.mouse.move(600, 5)
    page.keyboard.press("p")
    assert page.get_attribute("[data-act=path]", "aria-pressed") == "true"


def settled(page: Any) -> bytes:
    """What is seen once the next frame is drawn."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return bytes(page.screenshot())


def test_a_segment_says_what_it_is_and_leads_to_who_was_waited_for(shown: Open) -> None:
    page = shown.page
    assert shown.rank_at(700, 29) == "rank 0"
    for _ in range(200):
        if "posted last" in shown.told:
            break
        page.keyboard.press(".")
    late = shown.told.rpartition("; rank ")[2].split()[0]
    waited = page.evaluate("told => Number(/from ([0-9.]+) ms/.exec(told)[1])", shown.told)
    page.keyboard.press("Enter")
    assert shown.told.startswith(f"rank {late}:")
    began, lasted = (float(re.findall(rf"{word} ([0-9.]+) ms", shown.told)[0]) for word in ("from", "compute,"))
    assert began + lasted > waited, "it leads to what the rank did at the time"


def test_one_finds_ranks_and_ops(shown: Open) -> None:
    page = shown.page
    page.fill("input[type=search]", "rank 13")
    assert shown.told.startswith("rank 13:")
    page.fill("input[type=search]", "send_recv")
    total = int(page.text_content(".hits").split()[0].replace(",", ""))
    page.press("input[type=search]", "Enter")
    assert page.text_content(".hits") == f"1 of {total:,}"
    assert "send_recv" in shown.told
    page.press("input[type=search]", "Shift+Enter")
    assert page.text_content(".hits") == f"{total:,} of {total:,}"
    page.fill("input[type=search]", "no such thing")
    assert page.text_content(".hits") == "nothing found"


def test_tables_lead_into_the_timeline_and_sort(shown: Open) -> None:
    page = shown.page
    link = page.locator("[aria-label='Ranks that others waited for'] a").first
    rank = link.text_content()
    link.click()
    assert shown.told.startswith(f"rank {rank}:")
    heading = page.locator("[aria-label='Time of each rank'] th button", has_text="Wait")
    cells = page.locator("[aria-label='Time of each rank'] tbody td:last-child")
    waits = "cells => cells.map(cell => Number(cell.dataset.value))"
    heading.click()
    assert cells.evaluate_all(waits) == sorted(cells.evaluate_all(waits), reverse=True)
    heading.click()
    assert cells.evaluate_all(waits) == sorted(cells.evaluate_all(waits))
    assert page.locator("th[aria-sort=ascending]").count() == 1


def test_one_chooses_whose_memory_is_drawn(shown: Open) -> None:
    page = shown.page
    assert page.locator("#course .course:not(.off)").count() == 1
    buttons = page.locator("#memory-table th button.choice")
    assert buttons.count() == 64
    assert buttons.nth(0).get_attribute("aria-pressed") == "true"
    buttons.nth(5).focus()
    page.keyboard.press("Enter")
    assert page.locator("#course .course:not(.off)").count() == 2
    assert "rank 5: at most" in page.text_content("#course-told")
    buttons.nth(0).click()
    assert page.get_attribute("#course", "aria-label") == f"Memory over time; {page.text_content('#course-told')}"
    assert "rank 0" not in page.text_content("#course-told")
    page.locator("#memory-table thead th button", has_text="Peak").click()
    assert page.locator("th[aria-sort=descending]").count() == 1, "rows with buttons sort as others do"


@pytest.mark.parametrize("shot", [shot for shot in SHOTS if shot.part != "diagnosis"], ids=lambda shot: shot.name)
def test_the_pictures_of_the_documentation_can_be_taken(browser: Any, small: Path, tmp_path: Path, shot: Any) -> None:
    assert take(browser, small, shot, tmp_path).read_bytes().startswith(b"\x89PNG")


def test_the_documentation_has_the_pictures_that_it_shows() -> None:
    docs = Path(__file__).parents[2] / "docs"
    shown = {name for page in docs.glob("*.md") for name in re.findall(r"\(images/([\w-]+\.png)\)", page.read_text())}
    there = {path.name: path.stat().st_size for path in (docs / "images").glob("*.png")}
    assert shown == set(there) == {f"{shot.name}.png" for shot in SHOTS}
    assert max(there.values()) <= 150_000


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a run that failed, with lines of its program and the memory of its ranks."""
    folder = tmp_path_factory.mktemp("failed")
    (folder / "train.py").write_text("import torch\n" * 8 + "dist.all_reduce(loss)\n")
    result = stuck()
    result.ranks = [RankResult(rank=rank, peak_bytes=1 << 20) for rank in range(2)]
    laps = {rank: np.array([(LapEnd.POST, 1 << 19), (LapEnd.END, 1 << 20)], LAP) for rank in range(2)}
    path = folder / "report.html"
    path.write_text(
        render_html(result, None, None, "t.yaml", 1, Surroundings(base=folder, laps=laps, capacity=1 << 20))
    )
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_by_everyone(browser: Any, small: Path, failed: Path, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    # The page's own policy lets no other script run, so the checker comes around it.
    with browser.new_context(color_scheme=scheme, bypass_csp=True) as context:
        found = axe.run(opened_in(context, small).page).response["violations"]
        page = context.new_page()
        page.goto(failed.as_uri())
        found += axe.run(page).response["violations"]
    assert [(rule["id"], rule["impact"]) for rule in found if rule["impact"] != "minor"] == []


@pytest.mark.parametrize("shot", [shot for shot in SHOTS if shot.part == "diagnosis"], ids=lambda shot: shot.name)
def test_pictures_of_failures_can_be_taken(browser: Any, failed: Path, tmp_path: Path, shot: Any) -> None:
    assert take(browser, failed, shot, tmp_path).exists()


def test_without_script_there_is_the_picture(browser: Any, small: Path) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(small.as_uri())
        assert page.is_visible(".still svg")
        assert page.is_hidden("#roll")


def test_a_thousand_ranks_open_and_move(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(page_of(replicas=16))
    assert path.stat().st_size < 10_000_000
    with browser.new_context() as context:
        seen = opened_in(context, path)
        seen.page.fill("input[type=search]", "1000")
        assert seen.told.startswith("rank 1000:")
        assert seen.said == []
