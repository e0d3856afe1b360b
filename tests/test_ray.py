"""The launcher `ray`: workers as actors on two raylets of one machine give what a worker without Ray does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from prism.coordinator import Coordinator
from prism.core.graph import Graph
from prism.core.prismtrace import Trace, encode
from prism.errors import RunError
from prism.net.launchers.ray import RayLauncher
from prism.scenario import Launcher
from tests.running import capture, scenario

PROGRAM = Path(__file__).with_name("programs") / "averages.py"


async def test_without_ray_or_a_cluster_the_fix_is_told() -> None:
    try:
        import ray  # noqa: F401
    except ImportError:
        told = r"launcher ray: ray is not installed .*; install it on all nodes with `pip install .prism-emu"
    else:
        told = r"launcher ray: no Ray cluster is found .*; start one with `ray start --head`"
    with pytest.raises(RunError, match=told):
        await RayLauncher(1, 1, None, 1.0).open()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=1)
    monkeypatch.setenv("RAY_ADDRESS", made.address)
    yield
    made.shutdown()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_two_raylets(cluster: None, tmp_path: Path) -> None:
    given = scenario(PROGRAM, ("3",), 4, 1, launcher=Launcher(kind="ray", workers=2))
    alone = capture(scenario(PROGRAM, ("3",), 4, 1), tmp_path / "alone")

    async def work() -> Graph:
        async with Coordinator(given, tmp_path / "out") as run:
            return await run.capture()

    graph = asyncio.run(work())
    assert alone.graph is not None
    assert b"".join(encode(Trace(graph))) == b"".join(encode(Trace(alone.graph)))
    assert [(tmp_path / "out" / "ranks" / f"{rank}.log").read_text() for rank in range(4)] == alone.output
