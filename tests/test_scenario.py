"""Scenarios that hold: from a file, from code, with overrides, and as a digest."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from prism.scenario import (
    Calibrate,
    Devices,
    Emulate,
    Fail,
    Jitter,
    Link,
    MicroBatches,
    Network,
    NetworkChange,
    Output,
    Program,
    Routing,
    Scenario,
    Slow,
    Speed,
    Topology,
    WhatIf,
    World,
)

MINIMAL = """\
prism: 1
name: job
program: {script: train.py}
world: {size: 8}
"""

EVERY_BLOCK = """\
prism: 1
name: moe-16
program:
  script: train.py
  args: [--layers, 4, --lr, 1.10, off]
  env: {DEBUG: on, LEVEL: 1}
  preload: [transformers]
world: {size: 16, ranks_per_node: 4}
fold: null
semantics: gloo
iteration: {marker: "train:Trainer.step"}
devices: {kind: cpu, slots: 4, memory: null}
network:
  intra_node: {bandwidth: 100GB/s}
  inter_node: {bandwidth: 25GB/s, latency: 8us}
  topology: {kind: node}
capture: {iterations: 10, payloads: all}
calibrate: {iterations: 3, warmup: 1, slice: node, answers: fast, share: signature}
emulate: {sandbox: [0, 5], iterations: 5, prune: true, contribution: exact, pool: 512MiB}
faults: []
what_if:
  - {name: hot, slow: {ranks: [5, 6], factor: 1.3}}
  - {name: half, network: {inter_node: {bandwidth: 25GB/s}}}
  - {name: throttled, slow: {ranks: [3], factor: 1.2, from: 2s, until: 3s, period: 10s}}
  - {name: pods, network: {topology: {kind: two-tier, pods: 2, oversubscription: 4}}}
  - {name: faster, speed: {factor: 0.5}, jitter: {sigma: 0.05, seed: 1, draws: 10}}
  - {name: lost, fail: {rank: 3, at: 3s}}
  - {name: more, micro_batches: {from: 4, to: 16}, routing: {hottest: 2, group: ep}}
hang_after: 1.5s
launcher: {kind: local}
stages: [capture, replay]
output: {formats: [html]}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "train.py").touch()
    path = tmp_path / "job.yaml"
    path.write_text(MINIMAL)
    return path


def test_defaults(file: Path) -> None:
    built = Scenario(name="job", program=Program(script="train.py"), world=World(size=8), path=str(file))
    assert Scenario.load(file) == built
    assert built.stages == ("capture", "calibrate", "replay")
    assert built.network.inter_node == Link(bandwidth=50 * 10**9, latency=8_000)
    assert built.hang_after == 600 * 10**9


def test_every_block(file: Path) -> None:
    file.write_text(EVERY_BLOCK)
    scenario = Scenario.load(file)
    program = scenario.program
    assert program.args == ("--layers", "4", "--lr", "1.10", "off")
    assert program.env == {"DEBUG": "on", "LEVEL": "1"}
    assert scenario.devices == Devices(kind="cpu", slots=4)
    assert scenario.network.intra_node == Link(bandwidth=100 * 10**9, latency=3_000)
    assert scenario.calibrate == Calibrate(iterations=3, warmup=1, slice="node", answers="fast", share="signature")
    assert scenario.emulate == Emulate(
        sandbox=(0, 5), iterations=5, prune=True, contribution="exact", pool=512 * 1024**2
    )
    assert scenario.what_if[0] == WhatIf(name="hot", slow=Slow(ranks=(5, 6), factor=1.3))
    assert scenario.what_if[2].slow == Slow(ranks=(3,), factor=1.2, since=2 * 10**9, until=3 * 10**9, period=10**10)
    assert scenario.what_if[3].network.topology == Topology(kind="two-tier", pods=2, oversubscription=4.0)
    assert scenario.what_if[4] == WhatIf(
        name="faster", speed=Speed(factor=0.5), jitter=Jitter(sigma=0.05, seed=1, draws=10)
    )
    assert scenario.what_if[5] == WhatIf(name="lost", fail=Fail(rank=3, at=3 * 10**9))
    more = WhatIf(name="more", micro_batches=MicroBatches(before=4, after=16), routing=Routing(hottest=2.0, group="ep"))
    assert scenario.what_if[6] == more
    assert scenario.hang_after == 1_500_000_000
    assert scenario.output == Output(formats=("html",))


@pytest.mark.parametrize("text", [MINIMAL, EVERY_BLOCK])
def test_structs_round_trip_through_plain_values(file: Path, text: str) -> None:
    file.write_text(text)
    scenario = Scenario.load(file)
    assert msgspec.convert(msgspec.to_builtins(scenario), Scenario) == scenario


def test_paths_are_relative_to_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent.parent)
    scenario = Scenario.load(Path(file.parent.name) / "job.yaml")
    monkeypatch.chdir("/")
    assert scenario.base == file.parent
    assert scenario.script == file.parent / "train.py"


def test_a_module_has_no_script(file: Path) -> None:
    assert Scenario.load(file, ["program={module: package.train}"]).script is None


def test_aliases_are_copied(file: Path) -> None:
    file.write_text(MINIMAL + "network: {intra_node: &link {bandwidth: 1GB/s, latency: 1us}, inter_node: *link}\n")
    network = Scenario.load(file).network
    assert network.inter_node == network.intra_node == Link(bandwidth=10**9, latency=1_000)


def test_overrides_replace_add_and_come_last(file: Path) -> None:
    overrides = ["world.size=4", "program.env.SEED=7", "program.args=[--fast]", "world.size=2", "emulate.pool=1MB"]
    scenario = Scenario.load(file, overrides)
    assert scenario.world.size == 2
    assert scenario.program == Program(script="train.py", args=("--fast",), env={"SEED": "7"})
    assert scenario.emulate.pool == 10**6


def test_an_override_repairs_a_bad_value(file: Path) -> None:
    file.write_text(MINIMAL.replace("size: 8", "size: 0"))
    assert Scenario.load(file, ["world.size=4"]).world.size == 4


def test_code_may_use_lists_and_whole_factors(file: Path) -> None:
    scenario = Scenario(
        name="job",
        program=Program(module="train"),
        world=World(size=8),
        what_if=[WhatIf(name="hot", slow=Slow(ranks=[1], factor=2))],  # type: ignore[arg-type]
    )
    assert scenario.what_if == (WhatIf(name="hot", slow=Slow(ranks=(1,), factor=2.0)),)


def test_nodes_hold_blocks_of_ranks() -> None:
    world = World(size=10, ranks_per_node=4)
    assert [list(world.node_ranks(node)) for node in range(world.nodes)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


@pytest.mark.parametrize(
    ("choice", "slices", "of_some"),
    [
        ("auto", ((0, 1), (2, 3), (4,)), ((1, 3), (4,))),
        ("node", ((0, 1, 2), (3, 4)), ((1,), (3, 4))),
        ("4", ((0, 1, 2, 3), (4,)), ((1, 3, 4),)),
        ("[[4, 0], [2], [1, 3]]", ((4, 0), (2,), (1, 3)), ((4,), (1, 3))),
    ],
)
def test_slices(
    file: Path, choice: str, slices: tuple[tuple[int, ...], ...], of_some: tuple[tuple[int, ...], ...]
) -> None:
    scenario = Scenario.load(file, ["world={size: 5, ranks_per_node: 3}", f"calibrate.slice={choice}"])
    assert scenario.slices() == slices
    assert scenario.slices([1, 3, 4]) == of_some


def test_a_variant_changes_only_what_it_names(file: Path) -> None:
    text = "what_if=[{name: near, network: {model: none, inter_node: {latency: 0ns}}}]"
    change = Scenario.load(file, [text]).what_if[0].network
    network = Network()
    assert change.applied(network) == Network(model="none", inter_node=Link(bandwidth=50 * 10**9, latency=0))
    assert NetworkChange().applied(network) == network


def test_lists_in_a_variant_are_swept(file: Path) -> None:
    sweep = "{name: s, slow: {ranks: [[1, 2], [3]], factor: [2, 3]}}"
    variants = Scenario.load(file, [f"what_if=[{{name: one, slow: {{ranks: [1, 2], factor: 2}}}}, {sweep}]"]).what_if
    assert [(variant.name, variant.slow) for variant in variants] == [
        ("one", Slow(ranks=(1, 2), factor=2.0)),
        ("s ranks=1,2 factor=2", Slow(ranks=(1, 2), factor=2.0)),
        ("s ranks=1,2 factor=3", Slow(ranks=(1, 2), factor=3.0)),
        ("s ranks=3 factor=2", Slow(ranks=(3,), factor=2.0)),
        ("s ranks=3 factor=3", Slow(ranks=(3,), factor=3.0)),
    ]


def test_two_lists_under_one_key_are_told_apart(file: Path) -> None:
    sweep = "what_if=[{name: s, slow: {ranks: [1], factor: [2]}, speed: {factor: [3]}}]"
    assert Scenario.load(file, [sweep]).what_if[0].name == "s slow.factor=2 speed.factor=3"


def test_what_changes_the_graph_is_swept_too(file: Path) -> None:
    sweep = "{name: s, micro_batches: {from: 4, to: [8, 16]}, routing: {hottest: [1, 2], group: [a, b]}}"
    variants = Scenario.load(file, [f"what_if=[{sweep}]"]).what_if
    assert len(variants) == 8
    assert variants[-2].name == "s to=16 hottest=2 group=a"
    assert variants[-2].micro_batches == MicroBatches(before=4, after=16)
    assert variants[-2].routing == Routing(hottest=2.0, group="a")


def test_a_whole_block_can_be_swept(file: Path) -> None:
    sweep = "what_if=[{name: s, network: {topology: [{kind: node}, {kind: rail}]}}]"
    names = [variant.name for variant in Scenario.load(file, [sweep]).what_if]
    assert names == ["s topology=kind=node", "s topology=kind=rail"]


def test_digest_is_of_the_content(file: Path) -> None:
    text = "program: {env: {B: b, A: a}, script: train.py}\nname: job\nworld: {ranks_per_node: 8, size: 8}\nprism: 1\n"
    elsewhere = file.with_name("other.yaml")
    elsewhere.write_text(text + "hang_after: 600s\nstages: [capture]\noutput: {formats: []}\n")
    assert Scenario.load(elsewhere).digest() == Scenario.load(file, ["program.env={A: a, B: b}"]).digest()


@pytest.mark.parametrize(
    "override", ["world.size=4", "program.env.A=1", "hang_after=9s", "what_if=[{name: a}]", "calibrate.warmup=1"]
)
def test_digest_changes_with_the_content(file: Path, override: str) -> None:
    assert Scenario.load(file, [override]).digest() != Scenario.load(file).digest()
