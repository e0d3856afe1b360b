"""Where assistants are in an emulation on several hosts: beside what they read, or beside the sandbox."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from prism.crew.spreading import spread
from prism.net.messages import Emulating

MEMBERS = cast(Any, {name: SimpleNamespace(gateway=f"{name}:1", host=name) for name in "abcd"})


@pytest.mark.parametrize(
    ("held", "apart", "expected"),
    [
        ({}, True, ("b", "c")),
        ({"a": 9, "c": 5, "d": 7}, True, ("d", "c")),
        ({"d": 7}, False, ("a", "a")),
    ],
    ids=["in turns", "most bytes first", "beside the sandbox"],
)
def test_assistants_are_where_most_of_their_bytes_are(
    held: dict[str, int], apart: bool, expected: tuple[str, ...]
) -> None:
    emulation = Emulating(directory="", sandbox=(1, 3), pool=0, apart=apart, held=held)
    assert spread(emulation, MEMBERS, {1: 0, 3: 0}).assistants == expected
