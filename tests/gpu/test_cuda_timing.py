"""Answers from the record on a GPU, with a fake one: streams are parked and the host is not; events tell the times."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from prism.core.calls import Call
from prism.core.events import Delivered, Marked, Posted, Timed, Waited
from prism.core.graph import OpKind
from prism.core.instructions import Deliver
from prism.core.stage.kept import Kept
from prism.gpu.cuda.nvml import Clocks
from prism.gpu.cuda.stand_in import stand_in
from prism.gpu.cuda.timing import Timing
from prism.gpu.cuda.watch import ClockWatch
from prism.gpu.group.synthesis import synthesise
from tests.gpu.cuda_stage import on_stage
from tests.gpu.fake_cuda import FakeDriver
from tests.gpu.test_cuda_capture import floats, result


class TestParking:
    def test_the_host_goes_on_and_the_stream_waits(self, tmp_path: Path) -> None:
        with on_stage(tmp_path, answered=True) as stage:
            tensor = floats(1)
            work = stage.group.allreduce([tensor])
            posted = stage.line.hear(Posted)
            assert (posted.payload, posted.staged, work.done()) == (None, True, True)
            (stream,) = stage.driver.streams
            assert "parks until 1" in stream.log
            stage.line.say(Deliver(rank=0, handle=1, result=result(stage.record, 8)))
            work.wait()  # the fake has to do here what the program's stream would wait for
            assert not stage.line.hear(Waited).blocks
            assert tensor.tolist() == [8]

    def test_results_that_are_longer_than_a_buffer_come_piece_by_piece(self, tmp_path: Path) -> None:
        with on_stage(tmp_path, answered=True) as stage:
            stage.link._slots._capacity = 8
            values = [float(number) for number in range(1, 24)]
            tensor = torch.zeros(len(values))
            work = stage.group.allreduce([tensor])
            stage.line.say(Deliver(rank=0, handle=1, result=result(stage.record, *values)))
            work.wait()
            assert tensor.tolist() == values

    def test_what_is_not_in_the_record_parks_nobody(self, tmp_path: Path) -> None:
        with on_stage(tmp_path, answered=True, kept=Kept(payloads="none")) as stage:
            outputs = torch.zeros(4)
            stage.group.all_gather_single(outputs, floats(1, 2)).wait()
            (stream,) = stage.driver.streams
            assert not [text for text in stream.log if text.startswith("parks")]
            assert outputs.tolist() == [1, 2, 1, 2]
            stage.line.say(Deliver(rank=0, handle=1, synthesised=True))
            assert stage.line.hear(Delivered).handle == 1


@pytest.mark.parametrize(
    ("call", "outputs"),
    [
        (Call(OpKind.ALL_GATHER), [6]),
        (Call(OpKind.REDUCE_SCATTER, send=(1, 3)), [3]),
        (Call(OpKind.BROADCAST), [2, 3]),
        (Call(OpKind.ALL_TO_ALL), [4]),
    ],
)
def test_what_is_made_up_is_what_a_cpu_makes_up(call: Call, outputs: list[int]) -> None:
    inputs = [floats(1, 2), floats(3, 4)]
    ours, theirs = ([torch.full((count,), 9.0) for count in outputs] for _ in range(2))
    stand_in(FakeDriver(), call, 1, inputs, ours)
    synthesise(call, 1, inputs, theirs)
    assert [one.tolist() for one in ours] == [one.tolist() for one in theirs]


class TestTiming:
    def test_segments_last_from_where_the_program_goes_on_to_where_it_calls(self) -> None:
        driver, told = FakeDriver(), list[tuple[int, tuple[int, ...]]]()
        timing = Timing(driver, lambda *what: told.append(what))
        for call, goes_on in ((3.0, 4.0), (10.0, 12.5), (13.0, 13.0)):
            driver.ms = call
            timing.call()
            timing.step()
            driver.ms = goes_on
            timing.resume()
        timing.tell()
        assert told == [(0, (-1, 6_000_000))]  # the last may still move, and before the first is the host's clock
        timing.conclude()
        assert told[1:] == [(2, (500_000,))]

    def test_a_rank_tells_what_its_device_took(self, tmp_path: Path) -> None:
        with on_stage(tmp_path, answered=True, kept=Kept(payloads="none")) as stage:
            stage.link.mark()
            stage.driver.ms = 2.0
            work = stage.group.allreduce([floats(1)])
            stage.driver.ms = 5.0
            work.wait()
            stage.driver.ms = 9.0
            stage.link.mark()
            stage.link.conclude()
            assert [type(stage.line.hear(kind)) for kind in (Marked, Posted, Waited, Marked)]
            told = [stage.line.hear(Timed) for _ in range(2)]
            assert [one.first for one in told] == [0, 3]
            assert [one.durations for one in told] == [(-1, 2_000_000, 3_000_000), (4_000_000,)]


def test_reasons_for_a_low_clock_are_gathered() -> None:
    seen = iter([Clocks(345, 80.0, 30, ()), Clocks(1400, 690.4, 80, ("power cap",))])
    watch = ClockWatch(0, look=lambda gpu: next(seen, None))
    told = watch.conclude(3)
    assert told is not None
    assert (told.rank, told.before.sm_mhz, told.after.power_w, told.throttled) == (3, 345, 690, ("power cap",))
