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

import sys
from collections.abc import Sequence

from prism.calibrating import Measurements
from prism.core.contribution import REDUCING
from prism.core.emulation.sandboxed import Sandboxed
from prism.core.graph import Graph
from prism.core.record import RankRecord
from prism.core.stage.answers import Answers
from prism.core.stage.building import build_graph
from prism.core.stage.exchange import Capture
from prism.core.stage.warnings import ATTACH
from prism.core.stage.world import World
from prism.emulation import Emulated, prepare
from prism.errors import RunError
from prism.folder import Calibrated, Captured
from prism.prediction import predict
from prism.report.flight import write_flight
from prism.result import RankResult, Result
from prism.run import Run
from prism.scenario import Scenario, WhatIf
from prism.staging import (
    crowded,
    emulation_setup,
    kept,
    paced,
    stage_setup,
    synthesised,
    with_sandbox,
)


class Coordinator(Run):
    """The stages of a scenario, each to be awaited in its order inside `async with`; see Run for what they share."""

    async def capture(self) -> Graph:
        """Run all ranks on the slots there are; returns the bare graph. Raises ProgramError with a diagnosis."""
        if "capture" in self._progress.stages:
            return self._reuse("capture")
        with self._stage("capture"):
            self.folder.clear_capture()
            size = self.scenario.world.size
            exchange = Capture(range(size), kept(self.scenario))
            world = World(range(size), self.scenario.devices.slots, exchange, self.scenario.hang_after)
            iterations = self.scenario.capture.iterations or 0
            await self._drive(world, stage_setup(self.scenario, self.folder, "capture", iterations))
            self.result.ranks = [RankResult.of(rank) for rank in world.ranks.values()]
            self.result.switches = sum(rank.switches for rank in world.ranks.values())
            self.result.payloads = exchange.payloads
            self.result.warnings = exchange.warnings.told()
            if world.diagnosis is not None:
                write_flight(self.folder.flight, exchange)
            self._check(world)
            if self.scenario.capture.iterations is None:  # ranks that were cut leave operations open by nature
                exchange.conclude()
            self.result.warnings = exchange.warnings.told()
            graph = build_graph(exchange.records, exchange.matcher)
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
            measurements, run = Measurements(graph, self.scenario), list[Sequence[int]]()
            for slices in measurements.rounds():
                for number, ranks in enumerate(slices):
                    self._observer.step(number, len(slices))
                    await self._measure(ranks, measurements)
                run += slices
            durations, found = measurements.conclude()
            if self.scenario.calibrate.answers == "paced":
                await self._measure_paced(graph.with_durations(durations), run, measurements)
                durations, found = measurements.conclude()
            made_up = synthesised(self.result.payloads, self.scenario.capture.payloads)
            calibrated = Calibrated(calibration=found, warnings=[*crowded(run), *made_up, *measurements.warnings])
            calibrated.into(self.result)
            graph = graph.with_durations(durations)
            self.folder.save_graph(graph, self.scenario)
            self._progress.calibrated = calibrated
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
            self.result.warnings += [one for one in emulated.exchange.warnings.told() if one.kind != ATTACH]
            self.result.emulation = emulated.result(scenario.calibrate.warmup)
            self._progress.emulated = self.result.emulation
        if scenario.emulate.sandbox != self.scenario.emulate.sandbox:  # that of the scenario is still to be done
            del self._progress.stages["emulate"]
            self.folder.save_progress(self._progress)
        return self.result

    # -- parts of the stages -----------------------------------------------------------------------------------------

    async def _measure(self, ranks: Sequence[int], measurements: Measurements) -> None:
        """Run one slice."""
        iterations = measurements.iterations(ranks)
        exchange = Answers(self.folder.load_record(rank).until(iterations) for rank in ranks)
        world = World(ranks, len(ranks), exchange, self.scenario.hang_after, preempt=False)
        await self._drive(world, stage_setup(self.scenario, self.folder, "calibrate", iterations))
        self._check(world)
        for rank in ranks:
            if not exchange.complete(rank):
                raise RunError(f"rank {rank} ended before it had repeated what was captured of it")
            measurements.add(rank, exchange.durations(rank))

    async def _measure_paced(self, graph: Graph, slices: Sequence[Sequence[int]], measurements: Measurements) -> None:
        """Run the slices again, beside the communication that they would have at the times that are known by now."""
        for number, ranks in enumerate(slices):
            self._observer.step(number, len(slices))
            scenario = paced(self.scenario, ranks)
            records = {rank: self.folder.load_record(rank) for rank in ranks}
            emulated = await self._emulate(graph, scenario, records, recorded=True)
            for rank in ranks:
                measurements.add(rank, emulated.exchange.durations(rank))

    async def _emulate(
        self,
        graph: Graph,
        scenario: Scenario,
        records: dict[int, RankRecord],
        recorded: bool = False,
        attach: bool = False,
    ) -> Emulated:
        """Run sandbox ranks in wall time; `recorded`: they get what they got when they were captured."""
        emulation = prepare(graph, scenario, records)
        exchange = Sandboxed(graph, emulation.sandbox, records)
        world = World(emulation.sandbox, len(emulation.sandbox), exchange, scenario.hang_after, preempt=False)
        room = (await self._assembled()).room("emulation")
        board = emulation.lay_out(room)
        await self._drive(world, emulation_setup(scenario, self.folder, room, recorded, attach))
        self._check(world)
        for rank in emulation.sandbox:
            if not (exchange.complete(rank) or world.ranks[rank].cut):
                raise RunError(f"rank {rank} ended before it had repeated what was captured of it")
        return Emulated(emulation, board, world, exchange)

    def _sandbox_records(self, scenario: Scenario) -> dict[int, RankRecord]:
        """What was captured of the sandbox ranks; nothing, where no capture is needed for what the others put in."""
        if "capture" not in self._progress.stages and scenario.emulate.contribution not in REDUCING:
            return {}
        self._progress.require_kept(kept(scenario))
        return {rank: self.folder.load_record(rank) for rank in scenario.emulate.sandbox}


if __name__ == "__main__":
    from prism.command import main

    sys.exit(main())
