"""Workers as actors of a Ray cluster, one for each bundle of a placement group; payloads go from ferry to ferry.

An actor is a worker's parent: it starts the process on its node, and the process ends with it. PRISM has to be
installed on all nodes.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from prism.errors import RunError
from prism.net.keys import WorkerKeys
from prism.net.launchers import Meeting, Started
from prism.net.scratch import make_scratch, remove_scratch


class Node:
    """What the actor does: it runs the worker of its node."""

    def run(self, name: str, address: str, keys: WorkerKeys) -> int:
        """Start the worker, and return its exit code when it has ended."""
        directory = make_scratch()
        try:
            command = [
                sys.executable, "-P", "-m", "prism.gpu.worker", "--coordinator", address,
                "--keys", str(keys.save(directory)), "--name", name, "--directory", str(directory),
            ]  # fmt: skip
            return subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode
        finally:
            remove_scratch(directory)


@dataclass
class RayWorker:
    """An actor."""

    name: str
    actor: Any
    running: asyncio.Future[int]
    ray: Any = field(repr=False)

    pid: int | None = None

    @property
    def gone(self) -> bool:
        """Whether it has ended."""
        return self.running.done()

    async def ended(self) -> str:
        """Its worker's exit code, or what became of the actor."""
        try:
            return str(await asyncio.shield(self.running))
        except self.ray.exceptions.RayError as error:
            return str(error).partition("\n")[0]

    def kill(self) -> None:
        """End the actor; its worker goes with it."""
        self.ray.kill(self.actor)


class RayLauncher:
    """Starts `workers` actors with `cpus` each, on as many nodes as there are; at `listen`, or where Ray has this node.

    The cluster is the one that RAY_ADDRESS names, or that runs here (`ray start`).
    """

    def __init__(self, workers: int, cpus: int, listen: str | None, wait_s: float) -> None:
        self.workers = workers
        self.wait_s = wait_s
        self._cpus = cpus
        self._listen = listen
        self._ray: Any = None
        self._group: Any = None
        self._connected = False  # by us, and not before

    async def open(self) -> str:
        """Find the cluster; raises RunError if there is none."""
        self._ray = _import()
        if not self._ray.is_initialized():
            try:
                await asyncio.to_thread(self._ray.init, address="auto", log_to_driver=True, logging_level="error")
            except ConnectionError as error:
                told = "start one with `ray start --head`, or name one in RAY_ADDRESS"
                raise RunError(f"launcher ray: no Ray cluster is found ({error}); {told}") from None
            self._connected = True
        return self._listen or f"tcp://{self._ray.util.get_node_ip_address()}:*"

    async def start(self, meeting: Meeting) -> Sequence[Started]:
        """Reserve room for all workers, and start an actor in each bundle; raises RunError if there is no room."""
        ray = self._ray
        bundles = [{"CPU": self._cpus} for _ in range(self.workers)]
        self._group = ray.util.placement_group(bundles, strategy="SPREAD")
        if not await asyncio.to_thread(self._group.wait, self.wait_s):
            has = ray.cluster_resources().get("CPU", 0)
            wanted = f"{self.workers} workers with {self._cpus} CPUs each"
            raise RunError(f"launcher ray: no room for {wanted} in {self.wait_s:.0f} s; the cluster has {has:.0f} CPUs")
        return [self._start(f"worker-{number}", number, meeting) for number in range(self.workers)]

    def told(self, address: str) -> str:
        """Nothing: they come by themselves."""
        return ""

    def late(self, address: str) -> str:
        """The cluster keeps them."""
        return "the logs of the actors may say why, or wait longer (launcher.wait)"

    async def end(self) -> None:
        """Give the room back."""
        if self._group is not None:
            self._ray.util.remove_placement_group(self._group)
            self._group = None
        if self._connected:
            self._connected = False
            with contextlib.suppress(Exception):  # a cluster that has gone needs no goodbye
                await asyncio.to_thread(self._ray.shutdown)

    def _start(self, name: str, bundle: int, meeting: Meeting) -> RayWorker:
        ray = self._ray
        place = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(
            self._group, placement_group_bundle_index=bundle
        )
        actor = ray.remote(Node).options(num_cpus=self._cpus, scheduling_strategy=place, max_restarts=0).remote()
        running = actor.run.remote(name, meeting.address, meeting.keys).future()
        return RayWorker(name, actor, asyncio.wrap_future(running), ray)


def _import() -> Any:
    try:
        for name in ("ray.exceptions", "ray.util.scheduling_strategies"):
            importlib.import_module(name)
        return importlib.import_module("ray")
    except ImportError as error:
        told = 'install it on all nodes with `pip install "prism-emulator[ray]"`'
        raise RunError(f"launcher ray: ray is not installed ({error}); {told}") from None
