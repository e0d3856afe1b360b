"""The live page: who may see it, what it shows, and how it looks in a browser."""

from __future__ import annotations

import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from live.test_snapshot import begun

from prism.command.main import main
from prism.errors import RunError
from prism.live.serving import MAX_MOMENTS, Served


@pytest.fixture
def served() -> Iterator[Served]:
    serving = Served("moe", iterations=4)
    yield serving
    serving.close()


def fetched(address: str) -> str:
    with urllib.request.urlopen(address, timeout=10) as answer:
        return str(answer.read().decode())


def test_who_has_the_address_sees_where_the_ranks_stand(served: Served) -> None:
    served.begin("capture")
    served.watch(begun())
    served.say("attach here")
    page, now = fetched(served.address), json.loads(fetched(served.address.replace("/?", "/now?")))
    assert "PRISM live" in page
    assert now["scenario"] == "moe"
    assert now["now"]["states"] == "rrnn"
    assert now["moments"] == ["rrnn"]
    assert now["said"] == ["attach here"]
    served.end("capture", "ok", 1.5)
    assert json.loads(fetched(served.address.replace("/?", "/now?")))["ended"] == [["capture", "ok", 1.5]]


@pytest.mark.parametrize("path", ["/", "/now", "/?token=wrong", "/now?token="])
def test_without_the_token_nothing_is_told(served: Served, path: str) -> None:
    base = served.address.partition("/?")[0]
    with pytest.raises(urllib.error.HTTPError) as refused:
        fetched(base + path)
    assert refused.value.code == 403
    refused.value.close()


def test_nothing_else_is_there(served: Served) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        fetched(served.address.replace("/?", "/etc/passwd?"))
    assert refused.value.code == 404
    refused.value.close()


def test_a_port_that_is_taken_is_said(served: Served) -> None:
    port = int(served.address.split(":")[2].partition("/")[0])
    with pytest.raises(RunError, match=f"--serve {port}: .*choose another port"):
        Served("moe", 0, port)


def test_what_is_shown_stays_small(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prism.live.snapshot.INTERVAL_S", 0.0)
    world = begun()
    served.begin("capture")
    for _ in range(3 * MAX_MOMENTS):
        served.watch(world)
    moments = json.loads(fetched(served.address.replace("/?", "/now?")))["moments"]
    assert MAX_MOMENTS / 2 <= len(moments) <= MAX_MOMENTS


def test_what_a_stage_showed_stays_until_the_next_one_has_something_to_show(served: Served) -> None:
    served.begin("capture")
    served.watch(begun())
    served.begin("replay")  # in which no rank runs
    now = json.loads(fetched(served.address.replace("/?", "/now?")))
    assert (now["now"]["stage"], now["now"]["states"]) == ("replay", "")
    assert (now["ranks"], now["moments"]) == ([0, 1, 2, 3], ["rrnn"])
    served.begin("emulate")
    served.watch(begun())
    assert len(json.loads(fetched(served.address.replace("/?", "/now?")))["moments"]) == 1


def test_a_scenario_is_not_taken_for_a_port(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--serve", "mine.yaml"]) == 2
    assert "expected a port, got mine.yaml; the scenario stands before --serve" in capsys.readouterr().err


def test_a_browser_shows_it(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prism.live.snapshot.INTERVAL_S", 0.0)
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no Chromium: install the package chromium")
    served.begin("capture")
    served.watch(begun())
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page, said = browser.new_page(), []
        page.on("console", lambda message: said.append(message.text))
        page.goto(served.address)
        page.locator("#scenario", has_text="moe").wait_for()
        assert page.text_content("#text").startswith("2 running, 2 not begun; iteration 0")
        assert page.text_content("#rows") == "Rank 0 on top, rank 3 at the bottom; time goes to the right."
        drawn = "document.getElementById('strip').toDataURL()"
        before = page.evaluate(drawn)
        served.watch(begun())
        page.wait_for_function(f"before => {drawn} !== before", arg=before)
        assert page.get_attribute("#share", "value") is None, "nobody knows yet how much is done"
        assert page.locator("#share").bounding_box()["width"] == page.locator("#strip").bounding_box()["width"]
        assert said == []
        served.begin("replay")
        page.locator("#stage", has_text="replay, 0 s").wait_for()
        assert page.text_content("#text") == ""
        browser.close()
