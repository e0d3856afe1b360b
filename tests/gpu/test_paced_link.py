"""A sandbox rank on a GPU that is timed, with a fake device: which times are its own, and which results it gets."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from prism.core.calls import Call, Ref
from prism.core.events import Clocked, Marked, Posted, Timed, Waited
from prism.core.graph import OpKind
from prism.core.record import PostStep
from prism.core.stage.kept import EVERYTHING
from prism.gpu.cuda import watch
from prism.gpu.cuda.nvml import Clocks
from prism.gpu.emulation.device import recorded
from prism.gpu.emulation.device.communicator import DeviceCommunicator
from prism.gpu.emulation.device.link import DeviceLink
from prism.gpu.emulation.device.paced import PacedLink
from prism.gpu.emulation.device.told import Told
from tests.gpu.cuda_stage import OPEN, Line
from tests.gpu.fake_cuda import FakeDriver
from tests.gpu.test_cuda_capture import floats, result


class OpenLink(PacedLink):
    """A link whose process outlives its line."""

    def _read(self) -> None:
        self._serve()


class Stage:
    """Rank 0 of two in a sandbox, of which these steps were recorded; the test calls what C++ calls around NCCL."""

    def __init__(self, folder: Path, steps: Sequence[PostStep], kind: type[DeviceLink] = OpenLink) -> None:
        for name in ("scratch", "record"):
            (folder / name).mkdir(exist_ok=True)
        ours, theirs = socket.socketpair()
        OPEN.append(theirs)
        self.driver, self.line = FakeDriver(), Line(ours)
        arguments = (0, theirs, folder / "scratch", folder / "record", "s1", True, EVERYTHING)
        self.link = link = kind(*arguments, driver=self.driver)
        taken = iter(enumerate(steps))
        link.participant = SimpleNamespace(begin=lambda: None, take=lambda call: next(taken))  # type: ignore[assignment]
        entries = {number: range(number, number + 1) for number in range(len(steps))}
        link.engine = SimpleNamespace(plan=SimpleNamespace(entries=entries), state=lambda: "over")  # type: ignore[assignment]
        link._failed = lambda report: None  # type: ignore[method-assign]
        self.group = DeviceCommunicator(link, "default", (0, 1), 0, "nccl", lambda operation: operation)

    def all_reduce(self, tensor: torch.Tensor, in_line: bool) -> Told:
        """Post a sum, and return as NCCL takes it."""
        options = dist.AllreduceOptions()
        options.asyncOp = not in_line
        told = self.group.allreduce([tensor], options)
        assert isinstance(told, Told)
        return told

    def mark(self, ms: float) -> None:
        """The program computes for so long, until an iteration ends."""
        self.driver.work(ms)
        self.link.mark()

    def durations(self) -> list[int]:
        """The segments that were told of, in us."""
        self.link.conclude()
        found: list[int] = []
        while not found or found[-1] != LAST:
            told = self.line.hear(Timed)
            assert told.first == len(found)
            found += [-1 if ns < 0 else ns // 1000 for ns in told.durations]
        return found


LAST = 77
"""us: how long the program computes before its last mark."""


@contextlib.contextmanager
def on_stage(folder: Path, *steps: PostStep) -> Iterator[Stage]:
    stage = Stage(folder, steps)
    try:
        yield stage
    finally:
        stage.line.end()


def step(kind: OpKind = OpKind.ALL_REDUCE, result: Ref | None = None, dtype: str = "float32") -> PostStep:
    return PostStep("default", 1, Call(kind, dtype=dtype), "", result)


class TestTimes:
    @pytest.mark.parametrize("waits", [Told.wait, Told.wait_for_future])
    def test_what_the_program_waits_for_beside_its_own_stream(
        self, waits: Callable[[Told], None], tmp_path: Path
    ) -> None:
        with on_stage(tmp_path, step()) as stage:
            stage.mark(1.0)
            stage.driver.work(2.0)
            told = stage.all_reduce(floats(1), in_line=False)
            told.begun()
            stage.driver.work(3.0)
            waits(told)
            stage.driver.work(50.0)  # until the sum is there
            told.go_on()
            stage.mark(LAST / 1000)
            assert stage.durations() == [-1, 2000, 3000, LAST]

    def test_what_nccl_does_in_the_programs_own_stream(self, tmp_path: Path) -> None:
        with on_stage(tmp_path, step()) as stage:
            stage.mark(1.0)
            stage.driver.work(2.0)
            told = stage.all_reduce(floats(1), in_line=True)
            stage.driver.work(50.0)
            told.begun()
            stage.mark(LAST / 1000)
            assert stage.durations() == [-1, 2000, 0, LAST]
            heard = [stage.line.hear(kind) for kind in (Marked, Posted, Waited, Marked)]
            assert heard[2].handles == (heard[1].handle,)

    def test_what_the_host_takes_for_a_call_is_not_made_up_for(self, tmp_path: Path) -> None:
        with on_stage(tmp_path, step()) as stage:
            stage.mark(0.0)
            stage.driver.work(5.0)
            told = stage.all_reduce(floats(1), in_line=False)
            stage.driver.ms += 1.0  # which the device has not noticed
            told.begun()
            assert stage.driver.free == 5.0

    def test_a_batch_is_as_many_posts_and_one_wait(self, tmp_path: Path) -> None:
        with on_stage(tmp_path, step(), step()) as stage:
            stage.mark(1.0)
            stage.group.start_coalescing()
            for _ in range(2):
                stage.driver.work(2.0)
                stage.all_reduce(floats(1), in_line=True).begun()
            together = stage.group.end_coalescing()
            stage.driver.work(40.0)  # NCCL's kernels, in the program's stream
            together.begun()
            stage.driver.work(3.0)
            together.wait()
            stage.driver.work(50.0)
            together.go_on()
            stage.mark(LAST / 1000)
            assert stage.durations() == [-1, 2000, 2000, 3000, LAST]
            assert stage.line.hear(Waited).handles == (1, 2)

    def test_nothing_lies_between_the_posts_of_one_call(self, tmp_path: Path) -> None:
        with on_stage(tmp_path, step(), step()) as stage:
            stage.mark(1.0)
            stage.driver.work(2.0)
            options = dist.AllreduceCoalescedOptions()
            options.asyncOp = False

            def looks() -> str:
                stage.driver.ms = stage.driver.free + 1.0  # of the host, while the device idles
                return ""

            stage.link._site = looks  # type: ignore[method-assign]
            stage.group.allreduce_coalesced([floats(1), floats(2)], options).begun()
            stage.mark(LAST / 1000)
            assert stage.durations() == [-1, 2000, 0, 0, LAST]

    def test_it_tells_how_the_device_ran(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        seen = Clocks(1400, 690.4, 80, ("power cap",))
        monkeypatch.setattr(watch.ClockWatch.__init__, "__defaults__", (lambda gpu: seen,))
        with on_stage(tmp_path) as stage:
            stage.link.begin()
            stage.link.conclude()
            assert stage.line.hear(Clocked).throttled == ("power cap",)


class TestResults:
    def test_a_small_sum_is_the_recorded_one_once_the_program_has_waited(self, tmp_path: Path) -> None:
        with on_stage(tmp_path, step(result=result_of(tmp_path, 8, 9))) as stage:
            tensor = floats(1, 2)
            told = stage.all_reduce(tensor, in_line=False)
            told.begun()
            told.wait()
            assert tensor.tolist() == [1, 2]  # NCCL may write it still
            told.go_on()
            assert tensor.tolist() == [8, 9]

    def test_so_is_one_that_it_waits_for_at_once(self, tmp_path: Path) -> None:
        with on_stage(tmp_path, step(result=result_of(tmp_path, 8))) as stage:
            tensor = floats(1)
            stage.all_reduce(tensor, in_line=True).begun()
            assert tensor.tolist() == [8]

    def test_so_are_those_of_a_batch(self, tmp_path: Path) -> None:
        sums = [result_of(tmp_path, value) for value in (8, 9)]
        with on_stage(tmp_path, *(step(result=one) for one in sums)) as stage:
            tensors = [floats(1), floats(2)]
            stage.group.start_coalescing()
            for tensor in tensors:
                stage.all_reduce(tensor, in_line=True).begun()
            together = stage.group.end_coalescing()
            together.begun()
            together.wait()
            together.go_on()
            assert [one.tolist() for one in tensors] == [[8], [9]]

    def test_what_the_program_writes_afterwards_stays(self, tmp_path: Path) -> None:
        with on_stage(tmp_path, step(result=result_of(tmp_path, 8))) as stage:
            tensor = floats(1)
            told = stage.all_reduce(tensor, in_line=False)
            told.begun()
            for value in (8, 5):
                told.wait()
                told.go_on()
                assert tensor.tolist() == [value]
                tensor.fill_(5)

    @pytest.mark.parametrize(
        ("kind", "dtype", "count", "takes"),
        [
            (OpKind.ALL_REDUCE, "float32", 1024, True),
            (OpKind.ALL_REDUCE, "float32", 1025, False),
            (OpKind.ALL_REDUCE, "int32", 1025, True),
            (OpKind.REDUCE, "float32", 1, True),
            (OpKind.ALL_GATHER, "float32", 1, False),
        ],
    )
    def test_those_that_can_steer_the_program_are(
        self, kind: OpKind, dtype: str, count: int, takes: bool, tmp_path: Path
    ) -> None:
        with on_stage(tmp_path) as stage:
            given = step(kind, Ref("sum", 0, 4 * count), dtype)
            assert (stage.link.recorded_result(given, [torch.zeros(count)]) is not None) is takes

    def test_a_long_one_comes_in_pieces_and_buffers_are_used_again(self, tmp_path: Path) -> None:
        values = [float(number) for number in range(1, 24)]
        with on_stage(tmp_path) as stage, pytest.MonkeyPatch.context() as patch:
            patch.setattr(recorded, "BUFFERS", 2)
            patch.setattr(recorded, "CAPACITY", 12)
            buffers = recorded.Recorded(stage.driver)
            buffers.prepare()
            tensors = [torch.zeros(7), torch.zeros(4, 4)]
            buffers.put(result_of(tmp_path, *values), stage.link._library, tensors)
            assert [number for one in tensors for number in one.flatten().tolist()] == values

    def test_who_got_nothing_when_captured_gets_nothing(self, tmp_path: Path) -> None:
        with on_stage(tmp_path) as stage:
            assert stage.link.recorded_result(step(), [torch.zeros(1)]) is None
            assert stage.link.recorded_result(step(OpKind.REDUCE, Ref("sum", 0, 4)), []) is None


def result_of(folder: Path, *values: float) -> Ref:
    """The bytes of a recorded sum."""
    (folder / "record").mkdir(exist_ok=True)
    return result(folder / "record", *values)


def test_who_waits_for_the_device_waits_for_what_nobody_has_waited_for(tmp_path: Path) -> None:
    with on_stage(tmp_path, step(), step()) as stage:
        told = [stage.all_reduce(floats(1), in_line=False) for _ in range(2)]
        told[0].wait()
        for _ in range(2):
            stage.link.settle()
        stage.mark(LAST / 1000)
        assert [stage.line.hear(Waited).handles for _ in range(2)] == [(1,), (2,)]
        assert not [event for event in stage.line.said() if isinstance(event, Waited)]


def test_after_a_wait_in_another_stream_the_host_computes_on(tmp_path: Path) -> None:
    with on_stage(tmp_path, step()) as stage:
        told = stage.all_reduce(floats(1), in_line=False)
        told.begun()
        stage.link._resumed -= 10**15
        stage.link.side_streams = SimpleNamespace(take=lambda handles: True, own=lambda: None, settle=lambda: None)  # type: ignore[assignment]
        told.wait()
        told.go_on()
        assert stage.link.lap() > 10**14
