"""The pytest plugin: the fixture `prism_world`, which runs a function or a script as N ranks inside a test.

    def test_all_ranks_agree(prism_world):
        def program():
            total = torch.tensor([float(dist.get_rank())])
            dist.all_reduce(total)
            return total.item()

        assert list(prism_world(program, size=64)) == [2016.0] * 64

Options may also stand in a marker: `@pytest.mark.prism(size=64, slots=4)`. Under pytest-xdist every worker has a crew
of its own. Nothing of PRISM or torch is imported until a test asks for a world.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from prism.testing.worlds import Ranks, Worlds


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", "prism(size, **options): how prism_world runs the ranks of this test")


@pytest.fixture(scope="session")
def prism_worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    """What runs the ranks of all tests of this process."""
    try:
        from prism.testing.worlds import Worlds
    except ModuleNotFoundError as error:
        if error.name != "cloudpickle":
            raise
        raise pytest.UsageError(
            "prism_world takes functions to its ranks with cloudpickle: pip install cloudpickle"
        ) from None
    with Worlds(tmp_path_factory.mktemp("prism")) as worlds:
        yield worlds


class PrismWorld:
    """Calls `Worlds.run` with the options of the test's marker, unless the call has others."""

    def __init__(self, worlds: Worlds, options: dict[str, Any]) -> None:
        self._worlds = worlds
        self._options = options

    def __call__(self, target: Any, *args: Any, size: int | None = None, **options: Any) -> Ranks:
        """Run a function, or a script, as ranks; see prism.testing.Worlds.run."""
        __tracebackhide__ = True
        given = {**self._options, **options}
        marked = given.pop("size", None)
        if size is None and marked is None:
            raise TypeError("prism_world needs a size: prism_world(function, size=4), or @pytest.mark.prism(size=4)")
        return self._worlds.run(target, size if size is not None else marked, *args, **given)


@pytest.fixture
def prism_world(request: pytest.FixtureRequest, prism_worlds: Worlds) -> PrismWorld:
    """Run a function or a script as N ranks: `prism_world(function, size=64)`."""
    options: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("prism"))):  # the closest one counts
        options.update(marker.kwargs, **({"size": marker.args[0]} if marker.args else {}))
    known = [name for name, one in signature(prism_worlds.run).parameters.items() if one.kind is one.KEYWORD_ONLY]
    if unknown := [name for name in options if name not in ("size", *known)]:
        raise pytest.UsageError(f"marker prism: unknown option {unknown[0]}, choose from size, {', '.join(known)}")
    return PrismWorld(prism_worlds, options)
