"""Answers from the record on a GPU, with a fake one: streams are parked and the host is not; events tell the times."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributed import AllreduceOptions

from prism.core.calls import Call
from prism.core.events import Delivered, Marked, Posted, Timed, Waited
from prism.core.graph import OpKind
from prism.core.instructions import Deliver
from prism.core.measuring.segments import AFTER, WAITED
from prism.core.stage.kept import Kept
from prism.gpu.cuda.ahead import EVERY, FIRST, AheadTiming
from prism.gpu.cuda.compensated import CompensatedTiming
from prism.gpu.cuda.nvml import Clocks
from prism.gpu.cuda.stand_in import stand_in
from prism.gpu.cuda.timing import Timing
from prism.gpu.cuda.watch import ClockWatch
from prism.gpu.group.synthesis import synthesise
from tests.gpu.cuda_stage import on_stage
from tests.gpu.fake_cuda import FakeDriver, FakeStream
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
            assert stage.line.hear(Posted).settled
            assert not stage.line.hear(Waited).blocks

    def test_a_post_that_is_answered_is_said_before_the_program_goes_on_from_its_wait(self, tmp_path: Path) -> None:
        with on_stage(tmp_path, answered=True) as stage:
            options = AllreduceOptions()
            options.asyncOp = False
            work = stage.group.allreduce([floats(1)], options)
            stage.link.wait((work.operation.handle,))
            assert [type(event) for event in stage.line.said()][-2:] == [Posted, Waited]

    def test_a_post_that_is_not_answered_is_said_with_what_follows(self, tmp_path: Path) -> None:
        with on_stage(tmp_path, answered=True, kept=Kept(payloads="none")) as stage:
            stage.group.allreduce([floats(1)]).wait()
            assert Posted not in [type(event) for event in stage.line.said()]
            stage.link.mark()
            assert [type(event) for event in stage.line.said()][-4:] == [Posted, Waited, Timed, Marked]

    def test_who_takes_a_message_of_anyone_waits_to_hear_whose_it_is(self, tmp_path: Path) -> None:
        with on_stage(tmp_path, answered=True, kept=Kept(payloads="none")) as stage:
            work = stage.group.recv_anysource([torch.zeros(4)])
            assert not stage.line.hear(Posted).settled
            stage.line.say(Deliver(rank=0, handle=1, source=1, synthesised=True))
            assert stage.line.hear(Delivered).handle == 1
            assert work.operation.source == 1


Kernels = list[tuple[int, int]]
"""Each launched so many us after what the host did before, for so many us."""
Segment = tuple[Kernels, int, int]
"""Kernels, and how many us the step after them holds the host: in reality, and here."""
KERNELS = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300)), max_size=6)


class Clocked(FakeStream):
    """A stream that has work to do up to some time."""

    free = 0.0


class Streams(FakeDriver):
    """A device with two streams that do their work side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.default, self.beside = Clocked("default"), Clocked("beside")

    def mark(self, stream: Any, timed: bool = False) -> Any:
        event = super().mark(stream, timed)
        event.at = max(self.ms, stream.free)
        return event

    def work(self, ms: float) -> None:
        stream: Any = self.current()
        stream.free = max(stream.free, self.ms) + ms


def _launch(driver: FakeDriver, kernels: Kernels) -> None:
    for host, device in kernels:
        driver.ms += host / 1000
        driver.work(device / 1000)


def _undisturbed(segments: list[Segment]) -> float:
    """The ns at which the stream of a program comes to its end in reality."""
    driver = FakeDriver()
    for kernels, held, _ in segments:
        _launch(driver, kernels)
        driver.ms += held / 1000
    return 1e6 * max(driver.ms, driver.free)


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


@pytest.mark.parametrize("kind", [Timing, CompensatedTiming, AheadTiming])
class TestTiming:
    def test_segments_last_from_where_the_program_goes_on_to_where_it_calls(self, kind: type[Timing]) -> None:
        driver, told = FakeDriver(), list[tuple[int, tuple[int, ...]]]()
        timing = kind(driver, lambda first, durations, hosts: told.append((first, durations)))
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

    def test_a_graph_that_is_being_captured_gets_no_event(
        self, kind: type[Timing], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        driver, told = FakeDriver(), list[int]()
        monkeypatch.setattr(driver, "capturing", lambda: True)
        monkeypatch.setattr(driver, "drain", lambda: pytest.fail("nobody can wait for a stream that is captured"))
        timing = kind(driver, lambda first, durations, hosts: told.extend(durations))
        for _ in range(FIRST + 2):
            timing.mark()
            timing.resume()
        timing.conclude()
        assert (set(told), driver.default.log) == ({-1}, [])


class TestTimingAlone:
    def test_nothing_lies_between_a_step_and_one_that_follows_it(self) -> None:
        driver, told = FakeDriver(), list[int]()
        timing = Timing(driver, lambda first, durations, hosts: told.extend(durations))
        timing.step()
        timing.resume()
        driver.work(2.0)
        timing.step()
        driver.work(30.0)  # what the program's stream gets meanwhile, and waits for
        timing.call()
        timing.follow()
        timing.resume()
        driver.work(1.0)
        timing.step()
        timing.conclude()
        assert told == [-1, 2_000_000, 0, 1_000_000]

    def test_what_lies_behind_a_later_point_of_another_stream_took_nothing(self) -> None:
        driver, told = FakeDriver(), list[int]()
        timing = Timing(driver, lambda first, durations, hosts: told.extend(durations))
        for at in (5.0, 2.0, 6.0):  # of a stream, of one that is behind it, and of the first again
            driver.ms = at
            timing.step()
            timing.resume()
        timing.conclude()
        assert told == [-1, 0, 1_000_000]

    def test_a_step_in_a_stream_beside_holds_the_program_by_nothing(self) -> None:
        driver, told, own = Streams(), list[int](), list[Any]()
        timing = Timing(
            driver, lambda first, durations, hosts: told.extend(durations), lambda: own[-1] if own else None
        )
        timing.step()
        timing.resume()
        own.append(driver.default)
        driver.work(1.0)
        with driver.on(driver.beside):
            driver.ms = 1.0
            timing.step()
            driver.work(30.0)  # what was posted
            timing.resume()
        own.clear()
        driver.work(3.0)
        timing.step()
        timing.conclude()
        assert told == [-1, 1_000_000, 3_000_000]

    def test_it_holds_nobody(self) -> None:
        driver = FakeDriver()
        timing = Timing(driver, lambda first, durations, hosts: None)
        driver.work(5.0)
        timing.step()
        driver.ms += 1.0
        timing.resume()
        assert driver.free == 5.0


class TestCompensation:
    @pytest.mark.parametrize("waits", [False, True])
    @given(st.lists(st.tuples(KERNELS, st.integers(0, 50), st.integers(50, 900)), min_size=1, max_size=12))
    def test_what_a_step_in_a_stream_beside_takes_here_changes_nothing(
        self, waits: bool, segments: list[Segment]
    ) -> None:
        driver, told, own = Streams(), list[int](), list[Any]()
        timing = CompensatedTiming(
            driver, lambda first, durations, hosts: told.extend(durations), lambda: own[-1] if own else None
        )
        timing._is_far = lambda: False  # type: ignore[method-assign]
        timing.step()
        for kernels, held, here in segments:
            _launch(driver, kernels)
            if waits:
                driver.beside.free = max(driver.beside.free, driver.default.free)
            own.append(driver.default)
            with driver.on(driver.beside):
                timing.call()
                timing.step(1000 * held)
                driver.ms += here / 1000
                timing.resume()
            own.clear()
        timing.call()
        timing.step()
        timing.conclude()
        assert sum(told[1:]) == pytest.approx(_undisturbed(segments), abs=1000)

    @given(st.lists(st.tuples(KERNELS, st.integers(0, 50), st.integers(50, 900)), min_size=1, max_size=12))
    def test_what_a_step_takes_here_instead_of_there_changes_nothing(self, segments: list[Segment]) -> None:
        driver, told = FakeDriver(), list[int]()
        timing = CompensatedTiming(driver, lambda first, durations, hosts: told.extend(durations))
        timing._is_far = lambda: False  # type: ignore[method-assign]
        timing.step()
        for kernels, held, here in [*segments, ([], 0, 50)]:
            _launch(driver, kernels)
            timing.call()
            timing.step(1000 * held)
            driver.ms += here / 1000
            timing.resume()
        timing.conclude()
        assert sum(told[1:]) == pytest.approx(_undisturbed(segments), abs=1000)

    def test_a_device_that_is_far_behind_is_left_alone(self) -> None:
        driver = FakeDriver()
        timing = CompensatedTiming(driver, lambda first, durations, hosts: None)
        ends = []
        for _ in range(2):
            driver.work(5.0)
            timing.step(30_000)
            driver.ms += 1.0
            timing.resume()
            ends.append(driver.free)
        assert ends == pytest.approx([5.97, 10.97])  # held at the first step alone, which had none before it

    def test_a_step_that_is_no_usual_one_is_not_made_up_for(self) -> None:
        driver, told = FakeDriver(), list[int]()
        timing = CompensatedTiming(driver, lambda first, durations, hosts: told.extend(durations))
        timing.step()
        driver.work(50.0)
        timing.step(30_000)
        driver.ms += 30.0
        timing.resume()
        assert driver.free == 50.0  # nobody was held
        driver.work(1.0)
        timing.step()
        timing.conclude()
        assert told == [-1, 50_000_000, 1_000_000]

    def test_who_calls_in_a_stream_beside_gets_its_lead_back_in_its_own(self) -> None:
        driver, beside = FakeDriver(), FakeStream("beside")
        timing = CompensatedTiming(driver, lambda first, durations, hosts: None, lambda: driver.default)
        asleep: list[str] = []
        driver.sleep = lambda ns: asleep.append(driver.current().name)  # type: ignore[method-assign]
        with driver.on(beside):
            timing.step()
            driver.ms += 1.0
            timing.resume()
        assert asleep == ["default"]

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


class TestAhead:
    """Iterations of the same segments; the host is held ahead in number FIRST and every EVERY after it."""

    @given(
        st.lists(st.tuples(KERNELS, st.booleans(), st.integers(0, 40)), min_size=1, max_size=6),
        st.lists(st.integers(0, 100), min_size=1, max_size=6),
    )
    def test_what_the_device_takes_by_itself_is_told_of_some_iterations(
        self, segments: list[tuple[Kernels, bool, int]], posting: list[int]
    ) -> None:
        driver, told, hosts = FakeDriver(), list[int](), dict[int, int]()

        def hear(first: int, durations: tuple[int, ...], needs: tuple[tuple[int, int], ...]) -> None:
            told.extend(durations)
            hosts.update(needs)

        timing = AheadTiming(driver, hear)
        timing._is_far = lambda: False  # type: ignore[method-assign]
        timing.step()
        timing.resume()
        for _ in range(FIRST + EVERY + 1):
            for (kernels, waits, after), here in zip(segments, cycle(posting)):
                _launch(driver, kernels)
                if waits:
                    driver.ms = max(driver.ms, driver.free)
                    driver.ms += after / 1000
                timing.call()
                timing.step()
                driver.ms += here / 1000
                timing.resume()
            timing.mark()
            timing.resume()
        timing.conclude()
        each = len(segments) + 1
        for iteration in (FIRST, FIRST + EVERY):
            first = 1 + iteration * each
            for number, (kernels, waits, after) in enumerate(segments, first):
                by_itself = 1000 * (sum(device for _, device in kernels) + (after if waits else 0))
                assert told[number] == pytest.approx(by_itself, abs=10)
                needs = 1000 * sum(host for host, _ in kernels)
                assert hosts[number] == (WAITED if waits else pytest.approx(needs, abs=10))
            assert hosts[first + len(segments)] == 0
        assert {(number - 1) // each for number, needs in hosts.items() if needs != AFTER} == {FIRST, FIRST + EVERY}
        assert {(number - 1) // each for number, needs in hosts.items() if needs == AFTER} == {FIRST + 1}

    def test_the_next_iteration_begins_as_if_nobody_had_been_held_and_does_not_count(self) -> None:
        driver, told, hosts = FakeDriver(), list[int](), dict[int, int]()

        def hear(first: int, durations: tuple[int, ...], needs: tuple[tuple[int, int], ...]) -> None:
            told.extend(durations)
            hosts.update(needs)

        timing = AheadTiming(driver, hear)
        timing.step()
        timing.resume()
        for _ in range(FIRST + 3):
            _launch(driver, [(200, 100), (300, 10)])
            timing.mark()
            timing.resume()
        timing.conclude()
        assert told[1:] == pytest.approx([*[510_000] * 2, *[500_000] * (FIRST - 2), 110_000, 510_000, 500_000], abs=10)
        assert hosts == {FIRST + 1: pytest.approx(500_000), FIRST + 2: AFTER}

    def test_what_the_host_loses_while_the_device_is_far_behind_it_gets_back_before_the_device_is_idle(self) -> None:
        backward: Waiting = [([(72, 80)] * 15, 30, 300, False)] * 24
        waits: Waiting = [([(5, 1)], 4, 150, False)] * 24
        program: Waiting = [([(50, 60)] * 200, 30, 300, False), *backward, *waits, ([(1600, 2700)], 0, 0, True)]
        iterations = timed(program, FIRST + EVERY)
        real = in_reality(program)
        assert iterations[1 : FIRST - 1] == pytest.approx([real + 1_500_000] * (FIRST - 2), abs=200_000)
        assert iterations[FIRST + 1 :] == pytest.approx([real] * (EVERY - 1), abs=1000)

    def test_who_has_waited_for_the_device_gets_no_lead_back(self) -> None:
        far: Waiting = [([(10, 500)], 10, 200, False)] * 5
        program: Waiting = [*far, ([(1, 10)], 10, 200, True), *[([(300, 10)], 10, 200, False)] * 5, ([], 0, 50, True)]
        iterations = timed(program, FIRST + EVERY)[FIRST + 1 :]
        assert iterations == pytest.approx([in_reality(program)] * len(iterations), abs=1000)

    @given(st.lists(st.tuples(KERNELS, st.integers(0, 40), st.integers(40, 900), st.booleans()), max_size=12))
    def test_an_iteration_is_never_shorter_than_in_reality_nor_longer_than_if_nothing_was_given_back(
        self, segments: Waiting
    ) -> None:
        program: Waiting = [*segments, ([(1, 1)], 0, 10, True)]
        iterations, real = timed(program, FIRST + EVERY), in_reality(program)
        for iteration in iterations[FIRST + 1 :]:
            assert real - 1000 <= iteration <= iterations[1] + 1000

    @pytest.mark.parametrize("kinds", [1, 2])
    def test_a_host_that_is_slower_than_usual_has_not_waited(self, kinds: int) -> None:
        driver, hosts = FakeDriver(), dict[int, int]()
        timing = AheadTiming(driver, lambda first, durations, needs: hosts.update(needs))
        timing.step()
        timing.resume()
        for iteration in range(FIRST + 1):
            slow = 1.5 if iteration == FIRST else 1.0
            _launch(driver, [(round(slow * (30_000 if iteration % kinds == 0 else 100)), 20)])
            timing.mark()
            timing.resume()
        timing.conclude()
        assert hosts == {FIRST + 1: pytest.approx(45_000_000)}


Waiting = list[tuple[Kernels, int, int, bool]]
"""Segments; and whether the host waits for the device at the end of each."""


def in_reality(program: Waiting) -> float:
    """The ns that an iteration takes; at its end the host waits."""
    driver = FakeDriver()
    for kernels, held, _, waits in program:
        _launch(driver, kernels)
        driver.ms = max(driver.ms, driver.free) if waits else driver.ms
        driver.ms += held / 1000
    return 1e6 * max(driver.ms, driver.free)


def timed(program: Waiting, iterations: int) -> list[int]:
    """The ns that each iteration is found to take."""
    driver, told = FakeDriver(), list[int]()
    timing = AheadTiming(driver, lambda first, durations, hosts: told.extend(durations))
    timing.step()
    timing.resume()
    for _ in range(iterations):
        for kernels, held, here, waits in program:
            _launch(driver, kernels)
            driver.ms = max(driver.ms, driver.free) if waits else driver.ms
            timing.call()
            timing.step(1000 * held)
            driver.ms += here / 1000
            timing.resume()
        timing.mark()
        timing.resume()
    timing.conclude()
    each = len(program) + 1
    return [sum(told[1 + number * each :][:each]) for number in range(iterations)]


def test_reasons_for_a_low_clock_are_gathered() -> None:
    seen = iter([Clocks(345, 80.0, 30, ()), Clocks(1400, 690.4, 80, ("power cap",))])
    watch = ClockWatch(0, look=lambda gpu: next(seen, None))
    told = watch.conclude(3)
    assert told is not None
    assert (told.rank, told.before.sm_mhz, told.after.power_w, told.throttled) == (3, 345, 690, ("power cap",))
