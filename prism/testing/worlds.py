"""Functions and scripts as N ranks on this machine, for tests: their values, or why they failed.

All runs share one crew, so that torch is imported once. Its event loop has a thread of its own, for tests may run a
loop themselves.
"""

from __future__ import annotations

import asyncio
import pickle
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from prism.coordinator import Coordinator
from prism.core.devices import Model
from prism.core.graph import Graph
from prism.errors import ProgramError, RunError
from prism.result import Result
from prism.scenario import Capture, Devices, Output, Program, Scenario, World
from prism.scenario.quantities import SIZE
from prism.testing.carrying import carried
from prism.testing.failure import RanksFailed, unreturned
from prism.testing.lasting import LastingCrew
from prism.testing.rank import Call, value_path

INTERRUPT_S = 5.0
"""How long a run that is interrupted has to end its ranks."""
BACKENDS = ("gloo", "nccl")


@dataclass(frozen=True, eq=False, repr=False)
class Ranks(Sequence[Any]):
    """What a run left: `values` by rank (none of a script's), the result with peaks and warnings, and the graph."""

    values: list[Any]
    result: Result
    graph: Graph
    folder: Path

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rank: Any) -> Any:
        return self.values[rank]

    def __eq__(self, other: object) -> bool:
        return self.values == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Ranks({self.values!r})"

    def log(self, rank: int) -> str:
        """What the rank printed; raises IndexError for one that was not there."""
        if not 0 <= rank < self.result.world_size:
            raise IndexError(f"rank {rank} does not exist, there are ranks 0 to {self.result.world_size - 1}")
        return _log(self.folder, rank)


class Worlds:
    """Runs functions and scripts as ranks; a context manager. Files of a run go to `folder`, or to a temporary one."""

    def __init__(self, folder: Path | None = None) -> None:
        self._temporary = None if folder else tempfile.TemporaryDirectory(prefix="prism-")
        self._folder = folder or Path(self._temporary.name if self._temporary else "")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="prism-worlds", daemon=True)
        self._crew: LastingCrew | None = None
        self._runs = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_crew()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def run(
        self,
        target: Callable[..., Any] | str | Path,
        size: int,
        *args: Any,
        backend: str | None = "gloo",
        slots: int = 2,
        semantics: Literal["auto", "nccl", "gloo"] = "auto",
        memory: int | str | None = None,
        present_as: Model | None = None,
        hang_after_s: float = 60.0,
        folder: Path | None = None,
        **kwargs: Any,
    ) -> Ranks:
        """Run a function, or a script with `args`, as `size` ranks, with the environment and the directory of now.

        backend: the ranks of a function are in a process group of it before it begins; None: it makes its own.
        memory: of a rank's device, in bytes or as in "8MiB", beyond which torch.OutOfMemoryError is raised.
        hang_after_s: how long a rank may neither communicate nor end; what deadlocks is found at once.
        Raises RanksFailed.
        """
        __tracebackhide__ = True
        _check_backend(backend)
        capacity = SIZE.parse(memory) if isinstance(memory, str) else memory
        folder = folder or self._next_folder()
        folder.mkdir(parents=True, exist_ok=True)
        scenario = Scenario(
            name=_name(target),
            program=_program(target, args, kwargs, backend, folder),
            world=World(size=size),
            devices=Devices(slots=slots, memory=capacity, present_as=present_as),
            semantics=semantics,
            hang_after=round(hang_after_s * 1e9),
            capture=Capture(payloads="none"),
            output=Output(formats=()),
            stages=("capture",),
        )
        result, graph = self._captured(scenario, folder / "run")
        diagnosis = result.diagnosis
        if diagnosis is None and callable(target):
            diagnosis = unreturned([rank for rank in range(size) if not value_path(folder, rank).exists()])
        if diagnosis is not None:
            failed = [state.rank for state in diagnosis.ranks]
            raise RanksFailed(diagnosis, {rank: _log(folder / "run", rank) for rank in failed})
        assert graph is not None, "a run without a diagnosis has a graph"
        values = [_value(folder, rank) for rank in range(size)] if callable(target) else []
        return Ranks(values, result, graph, folder / "run")

    def _captured(self, scenario: Scenario, out: Path) -> tuple[Result, Graph | None]:
        run = self._await(self._made(scenario, out))
        task = asyncio.run_coroutine_threadsafe(_capture(run), self._loop)
        try:
            return run.result, task.result()
        except RunError:
            self._end_crew()  # it may be what is broken
            raise
        except BaseException:
            self._loop.call_soon_threadsafe(run.interrupt)
            with _suppressed():
                task.exception(INTERRUPT_S)
            raise

    async def _made(self, scenario: Scenario, out: Path) -> Coordinator:
        if self._crew is None:
            self._crew = await LastingCrew().__aenter__()
        return Coordinator(scenario, out, crew=self._crew)

    def _end_crew(self) -> None:
        crew, self._crew = self._crew, None
        if crew is not None:
            self._await(crew.__aexit__())

    def _await(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _next_folder(self) -> Path:
        self._runs += 1
        return self._folder / str(self._runs)


async def _capture(run: Coordinator) -> Graph | None:
    """The graph; None if the program failed and the result has a diagnosis."""
    async with run:
        try:
            return await run.capture()
        except ProgramError:
            if run.result.diagnosis is None:
                raise
            return None


def _check_backend(backend: str | None) -> None:
    """Raise ValueError for what torch takes and nothing here stands for."""
    for part in (backend or "gloo").split(","):  # as in cpu:gloo,cuda:nccl
        if part.rpartition(":")[2] not in BACKENDS:
            raise ValueError(f"backend: expected {' or '.join(BACKENDS)}, or None for none, got {backend!r}")


@contextmanager
def _suppressed() -> Iterator[None]:
    """What else goes wrong while the first error is on its way."""
    try:
        yield
    except Exception:
        return


def _program(
    target: Callable[..., Any] | str | Path, args: tuple[Any, ...], kwargs: dict[str, Any], backend: str | None,
    folder: Path,
) -> Program:  # fmt: skip
    if not callable(target):
        if kwargs:
            raise TypeError(f"a script takes no keyword arguments, got {', '.join(kwargs)}")
        return Program(script=str(Path(target).resolve()), args=tuple(map(str, args)))
    call = folder / "call"
    call.write_bytes(carried(Call(target, args, kwargs, backend)))
    return Program(
        module="prism.testing",
        args=(str(call.resolve()), str(folder.resolve())),
        preload=("prism.testing.rank",),
    )


def _value(folder: Path, rank: int) -> Any:
    return pickle.loads(value_path(folder, rank).read_bytes())


def _name(target: Callable[..., Any] | str | Path) -> str:
    name = getattr(target, "__name__", "function") if callable(target) else Path(target).stem
    kept = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in name).lstrip("._-")
    return kept or "function"


def _log(folder: Path, rank: int) -> str:
    path = folder / "ranks" / f"{rank}.log"
    return path.read_text(errors="replace") if path.exists() else ""
