"""All that a worker has to do with other hosts: payloads that its ranks need, and emulations spread over several."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from prism.core.events import AnyEvent
from prism.core.instructions import AnyInstruction, Deliver, Fold
from prism.errors import RunError
from prism.gpu.processes.imports import Imports
from prism.net.ferry import Ferry
from prism.net.messages import Laid, Setup
from prism.net.passing import OVERFLOW, Passing

if TYPE_CHECKING:
    from prism.gpu.emulation.elsewhere import Elsewhere
    from prism.gpu.emulation.gateway import Gateway


class Abroad:
    """For worker `name`; `tell` passes an instruction on to a rank, `failed` hears what does not work."""

    def __init__(
        self,
        name: str,
        directory: Path,
        ferry: Ferry,
        tell: Callable[[AnyInstruction], None],
        failed: Callable[[str], None],
    ) -> None:
        self._name = name
        self._directory = directory
        self.ferry = ferry
        self._imports = Imports(name, ferry, tell, failed)
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._gateway: Gateway | None = None
        self._elsewhere: Elsewhere | None = None
        self._open_gateway()

    @property
    def gateway(self) -> str:
        """Where emulations come in; "" where the engine is not built."""
        return "" if self._gateway is None else self._gateway.address

    def lay_out(self, setup: Setup, stage: int) -> None:
        """A stage begins: copies go where inputs of ranks do."""
        inputs, payloads = Path(setup.scratch), Path(setup.payloads)
        room = Passing(inputs, payloads, f"{self._name}.s{stage}-ferry")
        self.ferry.begin(setup.ferries, (inputs, payloads, payloads / OVERFLOW), room)
        self._imports.begin()

    async def begin(self, setup: Setup) -> Setup:
        """An emulation begins, if the stage is one; returns the setup of this host's processes. Raises RunError."""
        if setup.spread is None:
            return setup
        try:
            return await self._emulations.begin(setup)
        except OSError as error:
            raise RunError(f"another host of the emulation is not reached: {error}") from error

    def take(self, instruction: Deliver | Fold) -> None:
        """Pass an instruction on once what it speaks of is here."""
        self._imports.take(instruction)

    def hear(self, event: AnyEvent) -> None:
        """A rank has done something."""
        self._imports.hear(event)

    def laid(self, piece: Laid) -> None:
        """A piece of what the processes of an emulation share."""
        self._emulations.take(piece)

    def assistants(self, setup: Setup) -> list[int]:
        """The assistants that run here."""
        return [] if setup.spread is None else self._emulations.assistants(setup.spread)

    def end(self) -> Iterator[Laid]:
        """The stage is over; gives what the coordinator has to know of an emulation."""
        if self._elsewhere is not None:
            yield from self._elsewhere.end()

    def close(self) -> None:
        """The run is over."""
        if self._gateway is not None:
            self._gateway.close()

    @property
    def _emulations(self) -> Elsewhere:
        if self._elsewhere is None:
            raise RunError("prism.gpu._pruned is not built on this host; `make ext` builds it")
        return self._elsewhere

    def _open_gateway(self) -> None:
        try:
            from prism.gpu.emulation.elsewhere import Elsewhere
            from prism.gpu.emulation.gateway import Gateway
        except ImportError:
            return
        host = self.ferry.address.removeprefix("tcp://").rpartition(":")[0]
        self._gateway = Gateway(host, self._fail_from_thread)
        self._elsewhere = Elsewhere(self._name, self._directory, self.ferry, self._gateway)

    def _fail_from_thread(self, reason: str) -> None:
        self._loop.call_soon_threadsafe(self._failed, reason)
