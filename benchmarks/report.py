"""How long report.html takes to write and to open: 64 ranks, 1,024 and 8,192, of a pipeline with replicas and shards.

    python -m benchmarks.report [--replicas 1,16,128]

Open means: from the address to a timeline that can be moved in, in the Chromium of this machine, at the second time.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.report.pages import page_of
from tests.report.screenshots import browser


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--replicas", default="1,16", help="of 64 ranks each, separated by commas")
    print(f"{'ranks':>6} {'write':>9} {'size':>9} {'open':>9} {'search':>9}")
    with browser() as opened, tempfile.TemporaryDirectory() as folder:
        for replicas in map(int, parser.parse_args().replicas.split(",")):
            began = time.process_time()
            text = page_of(replicas)
            wrote = time.process_time() - began
            path = Path(folder) / "report.html"
            path.write_text(text)
            _seconds(opened, path)
            shown, searched = _seconds(opened, path)
            print(
                f"{64 * replicas:6,} {wrote:6.2f} s* {len(text) / 1e6:6.2f} MB {shown:7.2f} s {searched:7.3f} s",
                flush=True,
            )
    print("* of CPU, with the making and the evaluation of the graph")


def _seconds(opened: Any, path: Path) -> tuple[float, float]:
    """Until the timeline is there, and until a search has found an op."""
    with opened.new_context() as context:
        page = context.new_page()
        began = time.monotonic()
        page.goto(path.as_uri())
        page.wait_for_selector("#roll:not([hidden])")
        shown = time.monotonic() - began
        began = time.monotonic()
        page.fill("input[type=search]", "all_reduce")
        assert "found" in page.text_content(".hits")
        return shown, time.monotonic() - began


if __name__ == "__main__":
    main()
