"""What every block of a scenario is made of: a closed mapping, and numbers whose units a file spells out.

A YAML file gives quantities with units (`80GiB`, `1.5ms`, `50GB/s`); in the structs they are integers: bytes,
nanoseconds, bytes per second.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from prism.scenario.quantities import RATE, SIZE, TIME

Count = Annotated[int, Meta(ge=1)]
Factor = Annotated[float, Meta(gt=0, le=10**6)]
Bytes = Annotated[int, Meta(gt=0, extra={"quantity": SIZE})]
Nanoseconds = Annotated[int, Meta(ge=0, extra={"quantity": TIME})]
Timeout = Annotated[int, Meta(gt=0, extra={"quantity": TIME})]
Bandwidth = Annotated[int, Meta(gt=0, extra={"quantity": RATE})]


class Block(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mapping of the scenario. (Type checkers do not inherit `frozen`, hence its repetition below.)"""
