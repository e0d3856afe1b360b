"""What to try after a failure that PRISM has seen before: one line each, for a person."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from prism.core.diagnosis import Diagnosis

WANTS_CUDA = re.compile(
    r"not compiled with CUDA|NVIDIA driver|No CUDA GPUs|CUDA (is )?not available"
    r"|torch\._C' has no attribute '_(cuda|Cuda)"
)
"""How programs fail that must have a GPU, on a machine without one."""

_LACKS = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_NO_FILE = re.compile(r"FileNotFoundError: \[Errno 2\] No such file or directory: '([^/'][^']*)'")

_NO_SUCH_GPU = re.compile(r"CUDA error: invalid device ordinal")

HINTS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (WANTS_CUDA, lambda _: "it asks for a GPU: `devices: {present_as: H100}` lets it run on the CPU as if it had one"),
    (_NO_SUCH_GPU, lambda _: 'ranks share the GPUs here: `program: {env: {LOCAL_RANK: "0"}}` gives them the first'),
    (_LACKS, lambda found: f"{found[1]} is not installed where PRISM is: ranks run with its Python"),
    (_NO_FILE, lambda found: f"{found[1]} is looked for in the folder in which the command was started"),
)  # fmt: skip


def told(diagnosis: Diagnosis) -> str:
    """All that is known of how the ranks failed."""
    return "\n".join([diagnosis.summary, *(state.traceback or "" for state in diagnosis.ranks)])


def hints(diagnosis: Diagnosis) -> Iterator[str]:
    """What fits this failure."""
    text = told(diagnosis)
    for pattern, hint in HINTS:
        if found := pattern.search(text):
            yield hint(found)
