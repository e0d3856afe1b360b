# PYTHON_ARGCOMPLETE_OK
"""The coordinator: takes a scenario through its stages.

    async with Coordinator(Scenario.load("moe.yaml")) as run:
        graph = await run.capture()
        graph = await run.calibrate(graph)
        result = run.replay(graph)

It owns no rule: what ranks may do is decided by the worlds in prism.core, what times mean by prism.core's replay. Here
is said what each stage consists of; how any stage is gone through is in prism.run. Started as a program
(`python -m prism.coordinator SCENARIO.yaml`) it is the command line of prism.command.
"""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from prism.core.contribution import REDUCING
from prism.core.emulation.sandboxed import Sandboxed
from prism.core.folding.roles import FoldedCapture
from prism.core.folding.verification import Verification
from prism.core.graph import Graph
from prism.core.measuring.segments import Segments
from prism.core.record import RankRecord, lying
from prism.core.stage.answers import Answers
from prism.core.stage.capture import Capture
from prism.core.stage.exchange import Exchange
from prism.core.stage.warnings import ATTACH
from prism.core.stage.world import World
from prism.errors import RunError
from prism.prediction import predict
from prism.prediction.together import together
from prism.progress import Calibrated, Captured
from prism.report.flight import write_flight
from prism.result import DeviceClocks, Result
from prism.run import Run
from prism.scenario import Scenario, WhatIf
from prism.stages import folding
from prism.stages.calibrating import Measurements
from prism.stages.emulation import Emulated, prepare
from prism.stages.kinds import timed_apart
from prism.stages.measuring import Measure, Rounds, Slice
from prism.stages.slices import SliceLog
from prism.stages.staging import (
    calibration_warnings,
    emulation_setup,
    host_memory,
    kept,
    needed,
    paced,
    stage_setup,
    with_sandbox,
)


class Coordinator(Run):
    """The stages of a scenario, each to be awaited in its order inside `async with`; see Run for what they share."""

    async def capture(self) -> Graph:
        """Run all ranks on the slots there are; returns the bare graph. Raises ProgramError with a diagnosis."""
        if "capture" in self._progress.stages:
            return self._reuse("capture")
        with self._stage("capture"):
            self._earlier = self.folder.earlier_graph() if self.workers > 1 else None
            self.folder.clear_capture()
            exchange = folding.capture_of(self.scenario)
            world = await self._capture(folding.running(self.scenario), exchange)
            self.result.ranks = folding.rank_results(self.scenario, world)
            self.result.switches = sum(rank.switches for rank in world.ranks.values())
            self.result.residency = world.pager.residency.told()
            self.result.payloads = exchange.payloads
            self.result.warnings = exchange.warnings.told()
            if world.diagnosis is not None:
                write_flight(self.folder.flight, exchange)
            folding.refuse_unfoldable(self.scenario, exchange)
            self._check(world)
            await self._verify(exchange)
            if self.scenario.capture.iterations is None:  # ranks that were cut leave operations open by nature
                exchange.conclude()
            self.result.warnings = exchange.warnings.told()
            graph = folding.graph_of(self.scenario, exchange)
            self.result.nodes, self.result.ops = len(graph.nodes), len(graph.ops)
            self.folder.save_records(exchange.records)
            self.folder.save_graph(graph, self.scenario)
            self._progress.captured = Captured.of(self.result, kept(self.scenario))
        return graph

    async def calibrate(self, graph: Graph) -> Graph:
        """Time the ranks slice by slice, answered from the record; returns the graph with durations."""
        if "calibrate" in self._progress.stages:
            return self._reuse("calibrate")
        with self._stage("calibrate"):
            measurements, run = Measurements(graph, timed_apart(self.scenario)), list[Sequence[int]]()
            log = SliceLog(self.folder.slices, self._digests["calibrate"])
            self.clocks.update(log.clocks)
            if log.dropped:
                self._observer.say(f"{self.folder.slices}: its last slice was being written, and is measured again")
            for slices in measurements.rounds():
                await self._measure(slices, "fast", measurements, log, self._fast)
                run += slices
            timings, found = measurements.conclude()
            if self.scenario.calibrate.answers == "paced":
                timed = together(graph, timings, self.scenario)
                await self._measure(run, "paced", measurements, log, functools.partial(self._paced, timed))
                timings, found = measurements.conclude()
            found.clocks = [DeviceClocks.of(one) for _, one in sorted(self.clocks.items())]
            warnings = calibration_warnings(self.scenario, run, self.result.payloads, found.clocks)
            calibrated = Calibrated(calibration=found, warnings=[*warnings, *measurements.warnings])
            calibrated.into(self.result)
            graph = together(graph, timings, self.scenario)
            self.folder.save_timings(timings)
            self.folder.save_graph(graph, self.scenario)
            self._progress.calibrated = calibrated
        log.remove()
        return graph

    def replay(self, graph: Graph, what_if: Sequence[WhatIf] | None = None) -> Result:
        """Evaluate the calibrated graph and its variants in virtual time; returns the result."""
        with self._stage("replay"):
            variants = self.scenario.what_if if what_if is None else tuple(what_if)
            prediction = predict(graph, self.scenario, variants)
            prediction.into(self.result)
            self._seen = (graph, prediction.timeline)
        return self.result

    async def emulate(self, graph: Graph, sandbox: Sequence[int] | None = None, attach: bool = False) -> Result:
        """Run the sandbox ranks in wall time among virtual ones; returns the result.

        `attach`: they wait for a debugger first. Raises ProgramError where they do not do what is in the graph.
        """
        if (
            "emulate" in self._progress.stages
            and self._progress.emulated is not None
            and sandbox is None
            and not attach
        ):
            self._reuse("emulate")
            self.result.emulation = self._progress.emulated
            return self.result
        with self._stage("emulate"):
            scenario = with_sandbox(self.scenario, sandbox)
            emulated = await self._emulate(graph, scenario, self._sandbox_records(scenario), attach=attach)
            known = {(one.kind, one.summary) for one in self.result.warnings}  # the capture's, of more ranks
            told = [one for one in emulated.exchange.warnings.told() if one.kind != ATTACH]
            self.result.warnings += [one for one in told if (one.kind, one.summary) not in known]
            self.result.emulation = emulated.result(scenario.calibrate.warmup)
            self._progress.emulated = self.result.emulation
        if scenario.emulate.sandbox != self.scenario.emulate.sandbox:  # that of the scenario is still to be done
            del self._progress.stages["emulate"]
            self.folder.save_progress(self._progress)
        return self.result

    async def held(self, ranks: Slice) -> dict[int, int]:
        """How many bytes of what these ranks got in the capture lie on each worker, by its number."""
        workers = (await self._assembled()).members
        lying = sum((self._lying(rank) for rank in ranks), Counter[str]())
        return {number: lying[name] for number, name in enumerate(workers)}

    # -- parts of the stages -----------------------------------------------------------------------------------------

    async def _capture(self, ranks: Sequence[int], exchange: Exchange) -> World:
        """Run ranks as a capture does; returns the world that they were."""
        slots, memory, places = self.scenario.devices.slots, host_memory(self.scenario), self._places(ranks)
        world = World(ranks, slots, exchange, self.scenario.hang_after, memory=memory, hosts=places)
        setup = stage_setup(self.scenario, self.folder, "capture", self.scenario.capture.iterations or 0)
        await self._drive(world, folding.capture_setup(self.scenario, setup), places)
        return world

    async def _verify(self, exchange: Capture) -> None:
        """Run some of the ranks that are folded, and compare them with those that stand for them."""
        self.result.fold = folding.fold_result(self.scenario)
        chosen, fold = folding.verified(self.scenario), self.scenario.fold
        if chosen and fold is not None and isinstance(exchange, FoldedCapture):
            self._check(await self._capture(chosen, Verification(exchange, chosen, fold.compare == "payloads")))

    async def _measure(
        self, slices: Sequence[Slice], answers: Literal["fast", "paced"], measurements: Measurements, log: SliceLog,
        run: Measure,
    ) -> None:  # fmt: skip
        """Run those slices that have not run before, and take in what all of them have measured."""
        iterations = [measurements.iterations(ranks) for ranks in slices]
        rounds = Rounds(slices, iterations, answers, log, self._observer)
        await rounds.run(self, run, side_by_side=answers == "fast")
        for ranks, segments in zip(slices, rounds.segments, strict=True):
            for rank, of_rank in zip(ranks, segments or (), strict=True):
                measurements.add(rank, of_rank)

    async def _fast(self, slices: Mapping[int, Slice], iterations: int) -> dict[int, list[Segments]]:
        """Run slices, each on its worker, answered from the record as soon as they post."""
        ranks = [rank for slice in slices.values() for rank in slice]
        places = {rank: worker for worker, slice in slices.items() for rank in slice} if self.workers > 1 else None
        exchange = Answers(self.folder.load_record(rank).until(iterations) for rank in ranks)
        slots, hang_after = max(map(len, slices.values())), self.scenario.hang_after
        world = World(ranks, slots, exchange, hang_after, preempt=False, hosts=places)
        await self._drive(world, stage_setup(self.scenario, self.folder, "calibrate", iterations), places)
        self._check(world)
        for rank in ranks:
            if not exchange.complete(rank):
                raise RunError(f"rank {rank} ended before it had repeated what was captured of it")
        self.clocks.update(exchange.clocks)
        return {worker: [exchange.segments(rank) for rank in slice] for worker, slice in slices.items()}

    async def _paced(self, graph: Graph, slices: Mapping[int, Slice], iterations: int) -> dict[int, list[Segments]]:
        """Run one slice beside the communication that it would have at the times that are known by now."""
        ((worker, ranks),) = slices.items()
        scenario = paced(self.scenario, ranks, iterations)
        records = {rank: self.folder.load_record(rank) for rank in ranks}
        emulated = await self._emulate(graph, scenario, records, worker, recorded=True)
        self.clocks.update(emulated.exchange.clocks)
        return {worker: [emulated.exchange.segments(rank) for rank in ranks]}

    async def _emulate(
        self,
        graph: Graph,
        scenario: Scenario,
        records: dict[int, RankRecord],
        worker: int = 0,
        recorded: bool = False,
        attach: bool = False,
    ) -> Emulated:
        """Run sandbox ranks on a worker in wall time; `recorded`: they get what they got when they were captured."""
        emulation = prepare(graph, scenario, records)
        exchange = Sandboxed(graph, emulation.sandbox, records)
        world = World(emulation.sandbox, len(emulation.sandbox), exchange, scenario.hang_after, preempt=False)
        room = (await self._assembled()).room("emulation")
        board = emulation.lay_out(room)
        places = dict.fromkeys(emulation.sandbox, worker) if self.workers > 1 else None
        setup = emulation_setup(scenario, self.folder, room, emulation.held(), recorded, attach)
        await self._drive(world, setup, places)
        self._check(world)
        for rank in emulation.sandbox:
            if not (exchange.complete(rank) or world.ranks[rank].cut):
                raise RunError(f"rank {rank} ended before it had repeated what was captured of it")
        return Emulated(emulation, board, world, exchange)

    def _lying(self, rank: int) -> Counter[str]:
        """The bytes of what a rank got in the capture, by the worker on whose host they are."""
        if rank not in self._lies:
            self._lies[rank] = lying(self.folder.load_record(rank))
        return self._lies[rank]

    def _sandbox_records(self, scenario: Scenario) -> dict[int, RankRecord]:
        """What was captured of the sandbox ranks; nothing, where no capture is needed for what the others put in."""
        if "capture" not in self._progress.stages and scenario.emulate.contribution not in REDUCING:
            return {}
        self._progress.require_kept(needed(scenario))
        return {rank: self.folder.load_record(rank) for rank in scenario.emulate.sandbox}


if __name__ == "__main__":
    from prism.command.main import main

    sys.exit(main())
