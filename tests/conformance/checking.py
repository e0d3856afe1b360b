"""What the programs of this folder share: a check is a function with a feature's name, and prints one line a rank.

`CHECK <feature> ok <values>`, with what the function returned as JSON, or `CHECK <feature> FAIL <reason>`. The programs
are plain torch: they know nothing of who runs them, on four ranks.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable

import torch
import torch.distributed as dist

Check = Callable[[], object]

_CHECKS: dict[str, Check] = {}


def check(feature: str) -> Callable[[Check], Check]:
    """Take the function in as the check of a feature; what it returns must be the same on any backend."""

    def register(function: Check) -> Check:
        _CHECKS[feature] = function
        return function

    return register


def main(group: bool = True) -> None:
    """Run the checks, those that the command line names or all; inside a gloo group, unless they make their own."""
    warnings.simplefilter("ignore")  # torch announces what it will rename
    if group:
        dist.init_process_group("gloo")
    for feature in sys.argv[1:] or _CHECKS:
        torch.manual_seed(0)
        print("CHECK", feature, _outcome(_CHECKS[feature]), flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()


def _outcome(function: Check) -> str:
    try:
        values = function()
    except Exception as error:
        reason = str(error).strip().splitlines() or [""]
        return f"FAIL {type(error).__name__}: {reason[0]}"
    return f"ok {json.dumps(values, default=_plain)}"


def _plain(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return value.tolist()
    raise TypeError(f"a check returned {type(value).__name__}; choose tensors, numbers, text, lists or dicts")
