"""The report in a browser: it opens, is moved in, searched and sorted, and tells a screen reader what it shows."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.generated import Shape, graph
from prism.core.timeline.analysis import analyse
from prism.core.timeline.attribution import stragglers
from prism.core.timeline.network import LinkClass, Network, op_costs
from prism.core.timeline.replay import evaluate, make_plan
from prism.report.html import render_html
from prism.result import PathStep, RankResult, Result, StragglerResult, WhatIfResult

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: install the package chromium")

LINKS = Network("alpha-beta", LinkClass(450 * 10**9, 3_000), LinkClass(50 * 10**9, 8_000))


def page_of(replicas: int) -> str:
    """The report of a pipeline of 8 stages with 8 shards and so many replicas."""
    job = graph(Shape(stages=8, replicas=replicas, shards=8, micro_batches=4, layers=2))
    timeline = evaluate(make_plan(job), job.nodes["duration"].astype(np.int64), op_costs(job, LINKS, 8).total)
    found = analyse(job, timeline, 0)
    result = Result(scenario="pipeline", status="ok", world_size=job.world_size, nodes=len(job.nodes), ops=len(job.ops))
    result.iteration_ns, result.iteration_ns_median = found.iteration_ns, found.iteration_ns[0]
    result.bubble_fraction = found.bubble_fraction
    result.critical_path = [PathStep(rank=step.rank, kind=step.kind, ns=step.ns) for step in found.critical_path]
    late = stragglers(job, timeline, found.window)
    result.stragglers = [StragglerResult(rank=rank, caused_ns=ns) for rank, ns, _ in late]
    spent = zip(found.compute_ns.tolist(), found.comm_ns.tolist(), found.wait_ns.tolist(), strict=True)
    result.ranks = [
        RankResult(rank=rank, compute_ns=compute, comm_ns=comm, wait_ns=wait, peak_bytes=1 << 20)
        for rank, (compute, comm, wait) in enumerate(spent)
    ]
    result.what_if = [WhatIfResult(name="slow", iteration_ns_median=2 * found.iteration_ns[0], slowdown=2.0)]
    return render_html(result, job, timeline, "pipeline.yaml", 8)


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
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_by_everyone(browser: Any, small: Path, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    # The page's own policy lets no other script run, so the checker comes around it.
    with browser.new_context(color_scheme=scheme, bypass_csp=True) as context:
        found = axe.run(opened_in(context, small).page).response["violations"]
    serious = [rule["id"] for rule in found if rule["impact"] in ("serious", "critical")]
    assert serious == []


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
