"""The report: what it says, that it needs nothing else, and that what programs say cannot become markup."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
from report.tiny import long_job, tiny_job

from prism.core.diagnosis import Diagnosis, LastCommon, RankState, Warning
from prism.core.graph import NodeKind
from prism.report import units
from prism.report.html import render_html
from prism.report.picture import timeline_svg
from prism.result import (
    EmulatedRank,
    EmulationResult,
    PathStep,
    PrefetchResult,
    RankResult,
    Result,
    StageResult,
    StalledRank,
    StragglerResult,
    WhatIfResult,
)

SVG = "{http://www.w3.org/2000/svg}"
EMPTY = frozenset({"meta", "rect", "line", "path", "br", "input"})


class Page(HTMLParser):
    """The text of a page, its tags and the cells of its tables; fails on tags that do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self.text += " "

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.text += data
            if "td" in self.open or "th" in self.open:
                self.rows[-1][-1] += data.strip()


def finished() -> Result:
    """The result of the tiny job, with a variant of everything that the report shows."""
    return Result(
        scenario="tiny",
        status="ok",
        stages={"capture": StageResult(status="ok", wall_s=1.25), "replay": StageResult(status="reused", wall_s=0)},
        world_size=2,
        nodes=13,
        ops=2,
        iteration_ns=[40_000],
        iteration_ns_median=40_000,
        bubble_fraction=0.1875,
        critical_path=[
            PathStep(rank=1, kind="compute", ns=20_000),
            PathStep(rank=1, kind="all_reduce", ns=5_000),
            PathStep(rank=1, kind="compute", ns=5_000),
            PathStep(rank=0, kind="send_recv", ns=10_000),
        ],
        ranks=[
            RankResult(rank=0, compute_ns=10_000, comm_ns=15_000, wait_ns=15_000, peak_bytes=3 << 20),
            RankResult(rank=1, compute_ns=25_000, comm_ns=15_000, wait_ns=0, peak_bytes=1 << 20),
        ],
        stragglers=[StragglerResult(rank=1, caused_ns=15_000, site="train.py:9")],
        what_if=[WhatIfResult(name="half-network", iteration_ns_median=52_000, slowdown=1.3)],
        warnings=[Warning(kind="unsafe_order", summary="groups in two orders", ranks=[0, 1])],
    )


def stuck() -> Result:
    place = {"state": "blocked", "op": "all_reduce", "group": "world", "seq": 4, "callsite": "train.py:9"}
    failed = RankState(rank=1, state="failed", traceback="Traceback\n  <b>raise</b> & die")
    return Result(
        scenario="<script>alert(1)</script>",
        status="failed",
        world_size=4,
        diagnosis=Diagnosis(
            kind="rank_failed",
            summary="rank 1 raised <ValueError>",
            ranks=[RankState(rank=0, **place), failed, RankState(rank=2, **place), RankState(rank=3, **place)],
            last_common=LastCommon(op="broadcast", group="world", seq=3),
            cycle=[0, 2],
        ),
    )


def test_the_headline_says_how_long_what_bounds_it_and_the_bubble() -> None:
    text = Page(render_html(finished(), *tiny_job(), "tiny.yaml")).text
    assert "tiny tiny.yaml · 2 ranks · 13 nodes · 2 ops" in text
    assert "Predicted iteration 40.0 µs median of 1, 40.0 µs to 40.0 µs" in text
    assert "Bound by compute 62.5 % of the critical path, 62.5 % on rank 1" in text
    assert "Bubble 18.8 %" in text
    assert "capture ok, 1.2 s replay reused, 0.0 s" in text


def test_the_tables_say_the_numbers_of_the_result() -> None:
    rows = Page(render_html(finished(), *tiny_job(), "tiny.yaml")).rows
    assert ["0", "", "10.0 µs", "15.0 µs", "15.0 µs"] in rows
    assert ["1", "", "25.0 µs", "15.0 µs", "0.0 µs"] in rows
    assert ["1", "compute", "", "25.0 µs", "62.5 %"] in rows, "the steps of one rank and kind are added up"
    assert ["half-network", "", "52.0 µs", "1.300x"] in rows
    assert ["0", "", "3.00 MiB"] in rows
    assert ["1", "", "1.00 MiB"] in rows


def test_it_says_who_made_others_wait_and_how_stages_wait() -> None:
    page = Page(render_html(finished(), *tiny_job(), "tiny.yaml"))
    assert ["1", "", "15.0 µs", "100.0 %", "train.py:9"] in page.rows
    assert "account for 100.0 % of all waiting" in page.text
    assert ["0", "0", "", "37.5 %"] in page.rows, "the message makes the two ranks stages of a pipeline"
    assert ["1", "1", "", "0.0 %"] in page.rows


def test_stragglers_without_call_sites_have_no_column_for_them() -> None:
    result = finished()
    result.stragglers = [StragglerResult(rank=rank, caused_ns=100 - rank) for rank in range(20)]
    page = Page(render_html(result, *tiny_job(), "tiny.yaml"))
    assert ["0", "", "100 ns", "0.7 %"] in page.rows
    assert "and 12 more, for less." in page.text


def test_it_shows_who_sends_to_whom() -> None:
    page = Page(render_html(finished(), *tiny_job(), "tiny.yaml"))
    assert "8.50 KiB over the whole job. Most goes from rank 1 to 0: 4.50 KiB." in page.text
    assert [attrs["aria-label"] for tag, attrs in page.tags if tag == "svg" and attrs.get("class") == "heatmap"] == [
        "Bytes from each rank to each rank"
    ]


def test_the_bars_of_a_rank_are_as_long_as_its_numbers() -> None:
    tags = Page(render_html(finished(), *tiny_job(), "tiny.yaml")).tags
    bars = [(a["class"], a["x"], a["width"]) for tag, a in tags if tag == "rect" and "x" in a and "%" in str(a["x"])]
    assert bars[:3] == [("compute", "0.00%", "25.00%"), ("comm", "25.00%", "37.50%"), ("wait", "62.50%", "37.50%")]


def test_the_page_needs_nothing_else() -> None:
    html = render_html(finished(), *tiny_job(), "tiny.yaml")
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|<link|<img|\bsrc=|href=\"[^#]", html)
    assert set(re.findall(r"https?://[^\"' ]*", html)) == {"http://www.w3.org/2000/svg"}
    assert "default-src 'none'" in html
    assert "prefers-color-scheme: dark" in html


def test_only_the_script_of_the_page_may_run() -> None:
    html = render_html(finished(), *tiny_job(), "tiny.yaml")
    kinds = [attrs.get("type") for tag, attrs in Page(html).tags if tag == "script"]
    assert kinds == ["application/json", "text/plain", None], "two hold data"
    script = html.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in html


def test_tables_and_pictures_have_names_for_those_who_hear_them() -> None:
    tags = Page(render_html(finished(), *tiny_job(), "tiny.yaml")).tags
    assert [tag for tag, _ in tags if tag == "h1"] == ["h1"]
    assert all(attrs.get("scope") in ("col", "row") for tag, attrs in tags if tag == "th")
    assert all("aria-label" in attrs or attrs.get("aria-hidden") for tag, attrs in tags if tag == "svg")
    assert all("aria-label" in attrs for _, attrs in tags if attrs.get("role") == "region")


def test_a_diagnosis_stands_alone_and_joins_the_ranks_that_tell_the_same() -> None:
    page = Page(render_html(stuck(), None, None, "tiny.yaml"))
    assert "Diagnosis: rank failed rank 1 raised <ValueError>" in page.text
    assert "These ranks wait for one another: 0, 2." in page.text
    assert "The last op that all members agree on: broadcast on world, number 3." in page.text
    assert ["0, 2-3", "blocked", "all_reduce", "world", "4", "train.py:9"] in page.rows
    assert ["1", "failed", "", "", "", ""] in page.rows
    assert not {"Predicted", "Timeline"} & set(page.text.split())


def test_what_programs_say_stays_text() -> None:
    html = render_html(stuck(), None, None, "<i>name</i>")
    assert "<b>raise" not in html
    assert "<i>" not in html
    assert "Traceback <b>raise</b> & die" in Page(html).text


def test_the_picture_draws_each_state_where_it_happens() -> None:
    root = ElementTree.fromstring(timeline_svg(*tiny_job(), width=508))  # 400 px for 40 us
    paths = {path.get("class"): path.get("d") for path in root.iter(f"{SVG}path")}
    assert paths["compute"] == "M84 36H184v18H84zM84 58H284v18H84zM334 58H384v18H334z"
    assert paths["comm"] == "M284 36H334v18H284zM384 36H484v18H384zM284 58H334v18H284zM384 58H484v18H384z"
    assert paths["wait"] == "M184 36H284v18H184zM334 36H384v18H334z"
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert texts == [
        *("rank 0", "rank 1"),
        *("0 µs", "10 µs", "20 µs", "30 µs", "40 µs"),
        *("iteration 0", "compute", "communication", "wait for peers"),
    ]


def test_the_picture_shows_the_last_iterations_only() -> None:
    graph, timeline = long_job(ranks=2, pieces=40)
    nodes = graph.nodes.copy()
    marked = np.array([[9, 19, 29], [49, 59, 69]])
    nodes["kind"][marked], nodes["ref"][marked] = NodeKind.MARK, [0, 1, 2]
    svg = timeline_svg(replace(graph, nodes=nodes), timeline)
    assert re.findall(r"iteration \d", svg) == ["iteration 1", "iteration 2"]
    ends = timeline.node_end[marked].max(axis=0)
    assert f"over {units.time(int(ends[2] - ends[0]))}" in svg


def test_a_job_that_takes_no_time_has_an_empty_picture() -> None:
    graph, timeline = tiny_job()
    never = replace(timeline, node_start=0 * timeline.node_start, node_end=0 * timeline.node_end)
    root = ElementTree.fromstring(timeline_svg(graph, never))
    shapes = [path.get("d") for path in root.iter(f"{SVG}path") if path.get("class") in ("compute", "comm", "wait")]
    assert shapes == ["", "", ""]


def test_the_page_stays_small_however_large_the_job() -> None:
    graph, timeline = long_job(ranks=300, pieces=2000)
    result = Result(
        scenario="large",
        status="ok",
        world_size=300,
        ranks=[RankResult(rank=r, compute_ns=r, comm_ns=1, wait_ns=0, peak_bytes=r) for r in range(300)],
    )
    html = render_html(result, graph, timeline, "large.yaml")
    assert len(html) < 5_000_000
    assert ["0-4", "", "2 ns", "1 ns", "0 ns"] in Page(html).rows, "five ranks a row, their mean"
    assert ["0-4", "", "4 B"] in Page(html).rows, "and their maximum"
    assert "each row: the commonest state of 5 ranks" in html


def test_a_variant_that_stalls_says_so_in_place_of_a_time() -> None:
    result = finished()
    stalls = [StalledRank(rank=rank, since_ns=30_000, op="all_reduce", group="world") for rank in (0, 1)]
    result.what_if.append(WhatIfResult(name="lost", iteration_ns_median=None, slowdown=None, stalled=stalls))
    rows = Page(render_html(result, *tiny_job(), "tiny.yaml")).rows
    assert ["lost", "", "stalls from 30.0 µs: ranks 0-1"] in rows


def test_a_variant_with_jitter_shows_its_percentiles() -> None:
    result = finished()
    drawn = {"p5": 39_000, "p50": 41_000, "p95": 47_000, "p99": 52_000}
    result.what_if.append(WhatIfResult(name="noisy", iteration_ns_median=41_000, slowdown=1.03, percentiles=drawn))
    rows = Page(render_html(result, *tiny_job(), "tiny.yaml")).rows
    assert ["over its draws: p5 39.0 µs, p50 41.0 µs, p95 47.0 µs, p99 52.0 µs"] in rows


def test_what_sandbox_ranks_did_is_told() -> None:
    result = finished()
    result.emulation = EmulationResult(
        sandbox=[1],
        ranks=[EmulatedRank(1, [41_000, 40_000, 44_000], 1 << 20, 6, 2048, 2048, starved=0.31)],
        error_vs_replay=0.025,
        contribution="left",
        groups=1,
        ops=2,
        prefetch=PrefetchResult(hits=2, misses=0, stalls=0),
    )
    page = Page(render_html(result, *tiny_job(), "tiny.yaml"))
    assert ["1", "41.0 µs", "40.0 µs", "44.0 µs", "1.00 MiB", "2.00 KiB"] in page.rows
    assert (
        "2 read ahead, 0 late, 0 waited for. Against replay: +2.50 %. Rank 1 waited for a core in 31.0 %" in page.text
    )


def test_what_does_not_count_is_said_where_it_is_seen() -> None:
    graph, timeline = tiny_job()
    result = finished()
    result.iteration_ns = (result.iteration_ns or [])[-1:]
    assert "of the prediction, of which the first" not in Page(render_html(result, graph, timeline, "t.yaml")).text
    result.iteration_ns = []
    assert "of which the first warms up and does not count" in Page(render_html(result, graph, timeline, "t.yaml")).text
