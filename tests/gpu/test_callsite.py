"""Call sites: the program's frames, and those of a library on a thread where the program has none."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from operator import methodcaller

from torch.utils._pytree import tree_map

from prism.gpu.rank import callsite

PYTREE = r"torch/utils/_pytree\.py:\d+"


def test_the_programs_frames_come_before_those_of_libraries() -> None:
    (site,) = tree_map(methodcaller("callsite"), [callsite])
    assert re.match(r"\S*test_callsite\.py:\d+", site)
    assert "pytree" not in site


def test_a_thread_without_the_programs_frames_has_a_librarys() -> None:
    with ThreadPoolExecutor(1) as threads:
        (site,) = threads.submit(tree_map, methodcaller("callsite"), [callsite]).result()
    assert re.fullmatch(f"{PYTREE}( < {PYTREE})*", site)
