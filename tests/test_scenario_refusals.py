"""Every way to get a scenario wrong, and the one line that says so."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prism.errors import ScenarioError
from prism.scenario import Program, Scenario, Slow, WhatIf, World

BASE = """\
prism: 1
name: job
program: {script: train.py}
world: {size: 8}
"""

TOP = (
    "prism, name, program, world, fold, semantics, iteration, devices, network, capture, calibrate, emulate, faults, "
    "what_if, hang_after, launcher, stages, output"
)
SIZES = "B, KB, MB, GB, TB, KiB, MiB, GiB, TiB"
BOMB = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{inner}'] * 10)}]\n" for inner, name in pairwise("abcdef")
)

WHOLE_FILES = [
    ("", f"1: $: expected a mapping with keys {TOP}, got null"),
    ("# nothing but this\n", f"1: $: expected a mapping with keys {TOP}, got null"),
    ("- prism\n", f"1: $: expected a mapping with keys {TOP}, got a list"),
    ("name: job\n", "1: $.prism: expected version 1 of the schema, write `prism: 1`"),
    (BASE.replace("prism: 1", "prism: 2"), "1: $.prism: expected version 1 of the schema, write `prism: 1`"),
    ("prism: 1\nworld: {size: 1}\n", "1: $.name: missing, expected a string"),
    (
        "prism: 1\nname: job\nworld: {size: 1}\n",
        "1: $.program: missing, expected a mapping with keys script, module, args, env, preload",
    ),
    (BASE.replace("{size: 8}", "{}"), "4: $.world.size: missing, expected an integer of at least 1"),
    (BASE.replace("size: 8", "size: 0"), "4: $.world.size: expected an integer of at least 1, got 0"),
    (BASE.replace("size: 8", "size: -8"), "4: $.world.size: expected an integer of at least 1, got -8"),
    (BASE.replace("size: 8", "size: eight"), "4: $.world.size: expected an integer of at least 1, got 'eight'"),
    (BASE.replace("size: 8", "size: '8'"), "4: $.world.size: expected an integer of at least 1, got '8'"),
    (BASE.replace("size: 8", "size: 8.0"), "4: $.world.size: expected an integer of at least 1, got 8.0"),
    (
        BASE.replace("8}", "8, ranks_per_node: 0}"),
        "4: $.world.ranks_per_node: expected an integer of at least 1, got 0",
    ),
    (BASE.replace("{script: train.py}", "{}"), "3: $.program: expected one of script and module, got neither"),
    (BASE.replace("train.py", "train.py, module: m"), "3: $.program: expected one of script and module, got both"),
    (
        BASE.replace("train.py", "gone.py"),
        "3: $.program.script: no such file: 'gone.py', paths are relative to DIRECTORY",
    ),
    (BASE.replace("train.py", "''"), "3: $.program.script: expected a path, got ''"),
    (BASE.replace("script: train.py", "module: ''"), "3: $.program.module: expected the name of a module, got ''"),
    (
        BASE.replace("train.py", "x" * 300),
        f"3: $.program.script: no such file: '{'x' * 300}', paths are relative to DIRECTORY",
    ),
    (
        BASE.replace("name: job", "name: ../job"),
        "2: $.name: expected letters, digits, '.', '_' and '-', got '../job'",
    ),
    (BASE.replace("name: job", "name:"), "2: $.name: expected a string, got null"),
]

ADDED_AT_LINE_5 = [
    ("world: {size: 4}", "5: $.world: duplicate key, first at FILE:4, keep one"),
    ("wrold: {size: 4}", f"5: $.wrold: unknown key, did you mean world? valid: {TOP}"),
    ("<<: {name: job}", f'5: $["<<"]: unknown key, valid: {TOP}'),
    ("? [a]\n: b", "5: $: a list or mapping is used as a key, write a plain word"),
    ("a: [", "6: $: unreadable YAML: expected the node content, but found '<stream end>'"),
    ("\tb: 1", "5: $: unreadable YAML: found character '\\t' that cannot start any token"),
    ("b: \x07", "5: $: unreadable YAML: character U+0007 is not allowed"),
    ("---\nb: 1", "5: $: unreadable YAML: but found another document"),
    (
        "a: !!python/name:os.system x",
        "5: $: the tag 'tag:yaml.org,2002:python/name:os.system' is not allowed, leave it out",
    ),
    ("a: " + "[" * 40 + "]" * 40, "5: $: nested more than 32 deep, a scenario needs less"),
    ("a: &a [*a]", "the aliases expand to too much (deeper than 32 or more than 200000 values), write the values out"),
    (BOMB, "the aliases expand to too much (deeper than 32 or more than 200000 values), write the values out"),
    ('iteration: {marker: "a\\0b"}', "5: $.iteration.marker: text with a NUL or a lone surrogate, leave it out"),
    ('a: "\\UFFFFFFFF"', "1: $: unreadable YAML:"),
    (
        "devices:",
        "5: $.devices: expected a mapping with keys kind, present_as, slots, memory, host_memory, spill, got null",
    ),
    ("launcher: {workers: 9}", "5: $.launcher.workers: 9 is more than world.size, expected at most 8"),
    ("devices: {slots: 0}", "5: $.devices.slots: expected an integer of at least 1, got 0"),
    ("devices:\n  slots: 0", "6: $.devices.slots: expected an integer of at least 1, got 0"),
    ("devices: {memory: 80}", f"5: $.devices.memory: expected a size such as 80GiB (units: {SIZES}), got '80'"),
    (
        "devices: {memory: 80 gigs}",
        f"5: $.devices.memory: expected a size such as 80GiB (units: {SIZES}), got '80 gigs'",
    ),
    ("devices: {kind: gpu}", "5: $.devices.kind: expected auto, cpu or cuda, got 'gpu'"),
    ("devices: {present_as: V100}", "5: $.devices.present_as: expected A100, H100, H200 or cuda, got 'V100'"),
    ("semantics: mpi", "5: $.semantics: expected auto, gloo or nccl, got 'mpi'"),
    ("iteration: {marker: step}", "5: $.iteration.marker: expected optimizer or module:qualname, got 'step'"),
    (
        "network: {inter_node: {latency: -3us}}",
        "5: $.network.inter_node.latency: expected a time of at least 0 such as 1.5ms, got '-3us'",
    ),
    (
        "network: {intra_node: {bandwidth: 0GB/s}}",
        "5: $.network.intra_node.bandwidth: expected a rate above 0 such as 50GB/s, got '0GB/s'",
    ),
    ("hang_after: 0s", "5: $.hang_after: expected a time above 0 such as 1.5ms, got '0s'"),
    ("hang_after: 0.5ns", "5: $.hang_after: expected a whole number of nanoseconds, got '0.5ns', which is 0.5"),
    ("emulate: {prune: yes}", "5: $.emulate.prune: expected true or false, got 'yes'"),
    (
        "emulate: {sandbox: []}",
        "5: $.emulate.sandbox: expected a list of at least one [integer, ...], got an empty list",
    ),
    ("emulate: {sandbox: [0, 8]}", "5: $.emulate.sandbox[1]: rank 8 does not exist, world.size 8 has ranks 0 to 7"),
    ("emulate: {sandbox: [3, 3]}", "5: $.emulate.sandbox[1]: rank 3 is listed twice, keep one"),
    (
        "faults:\n  - {rank: 9, at: {iteration: 2}, do: hang}",
        "6: $.faults[0].rank: rank 9 does not exist, world.size 8 has ranks 0 to 7",
    ),
    (
        "capture: {iterations: 4}\nfaults:\n  - {rank: 1, at: {iteration: 4}, do: exit}",
        "7: $.faults[0].at.iteration: iteration 4 never begins, capture.iterations 4 has iterations 0 to 3",
    ),
    (
        "faults:\n  - {rank: 1, at: {iteration: 2}, until: {iteration: 3}, do: oom}",
        "6: $.faults[0].until: only slow has it, leave it out for oom",
    ),
    (
        "faults:\n  - {rank: 1, at: {iteration: 2}, do: hang, factor: 2}",
        "6: $.faults[0].factor: only slow has it, leave it out for hang",
    ),
    (
        "faults:\n  - {rank: 1, at: {iteration: 2}, do: slow, factor: 0.5}",
        "6: $.faults[0].factor: expected a number of at least 1 for slow, got 0.5",
    ),
    (
        "faults:\n  - {rank: 1, at: {iteration: 2}, do: slow}",
        "6: $.faults[0].factor: expected a number of at least 1 for slow, got null",
    ),
    (
        "faults:\n  - {rank: 1, at: {iteration: 2}, until: {iteration: 2}, do: slow, factor: 2}",
        "6: $.faults[0].until.iteration: expected more than 2, the iteration at which it begins",
    ),
    (
        "what_if: [{name: a, slow: {ranks: [-1], factor: 2}}]",
        "5: $.what_if[0].slow.ranks[0]: rank -1 does not exist, world.size 8 has ranks 0 to 7",
    ),
    (
        "what_if:\n  - {name: a, slow: {ranks: [1], factor: 0}}",
        "6: $.what_if[0].slow.factor: expected a number above 0 and of at most 1000000, got 0",
    ),
    (
        "what_if: [{name: a, slow: {ranks: [1], factor: .inf}}]",
        "5: $.what_if[0].slow.factor: expected a number above 0 and of at most 1000000, got '.inf'",
    ),
    (
        "what_if:\n  - {name: a}\n  - {name: a}",
        "7: $.what_if[1].name: 'a' is the name of $.what_if[0] too, choose another",
    ),
    (
        "what_if: [{name: a, slwo: 1}]",
        "5: $.what_if[0].slwo: unknown key, did you mean slow? valid: name, slow, speed, fail, jitter, network, "
        "micro_batches, routing, replicas",
    ),
    (
        "what_if:\n  - name: a\n    slow: {ranks: [1], factor: 2, from: 2s, until: 1s}",
        "7: $.what_if[0].slow.until: expected more than 2000000000ns, the time at which it begins",
    ),
    (
        "what_if: [{name: a, slow: {ranks: [1], factor: 2, since: 2s}}]",
        "5: $.what_if[0].slow.since: unknown key, valid: ranks, factor, from, until, period",
    ),
    (
        "what_if: [{name: a, slow: {ranks: [1], factor: 2, from: 2}}]",
        "5: $.what_if[0].slow.from: expected a time such as 1.5ms (units: ns, us, ms, s, min, h), got '2'",
    ),
    (
        "what_if: [{name: a, slow: {ranks: [1], factor: 2, period: 2s}}]",
        "5: $.what_if[0].slow.period: without an end it never comes again, give until",
    ),
    (
        "what_if: [{name: a, slow: {ranks: [1], factor: 2, from: 1s, until: 3s, period: 2s}}]",
        "5: $.what_if[0].slow.period: expected more than 2000000000ns, the time from its begin to its end",
    ),
    (
        "what_if: [{name: a, fail: {rank: 8, at: 3s}}]",
        "5: $.what_if[0].fail.rank: rank 8 does not exist, world.size 8 has ranks 0 to 7",
    ),
    (
        "what_if: [{name: a, fail: {rank: 1, at: 3s}, jitter: {sigma: 0.1}}]",
        "5: $.what_if[0].jitter: a variant in which a rank fails is not drawn, leave one of the two out",
    ),
    (
        "what_if: [{name: a, jitter: {sigma: 3}}]",
        "5: $.what_if[0].jitter.sigma: expected a number above 0 and of at most 2, got 3",
    ),
    (
        "what_if:\n  - {name: a}\n  - name: b\n    speed:\n      factor:\n        - 1\n        - x",
        "11: $.what_if[1].speed.factor[1]: expected a number above 0 and of at most 1000000, got 'x'",
    ),
    (
        "what_if:\n  - name: b\n    slow: {ranks: [[1], [2, 9]], factor: [2, 3]}",
        "7: $.what_if[0].slow.ranks[1][1]: rank 9 does not exist, world.size 8 has ranks 0 to 7",
    ),
    (
        "what_if: [{name: a, speed: {factor: []}}]",
        "5: $.what_if[0].speed.factor: an empty list, give at least one value",
    ),
    (
        f"what_if: [{{name: a, speed: {{factor: {[1] * 40}}}, slow: {{ranks: [1], factor: {[1] * 40}}}}}]",
        "5: $.what_if[0]: its lists make 1600 variants, expected at most 1000",
    ),
    (
        "what_if: [{name: a, micro_batches: {from: 1, to: 4}}]",
        "5: $.what_if[0].micro_batches.from: expected an integer of at least 2, got 1",
    ),
    (
        "what_if: [{name: a, micro_batches: {from: 4}}]",
        "5: $.what_if[0].micro_batches.to: missing, expected an integer of at least 1",
    ),
    (
        "what_if: [{name: a, micro_batches: {from: 4, to: [8, 0]}}]",
        "5: $.what_if[0].micro_batches.to[1]: expected an integer of at least 1, got 0",
    ),
    (
        "what_if: [{name: a, routing: {hottest: 0.5}}]",
        "5: $.what_if[0].routing.hottest: expected a number of at least 1 and of at most 1000000, got 0.5",
    ),
    ("what_if: [{name: [a, b]}]", "5: $.what_if[0].name: expected a string, got a list"),
    ("what_if: [[{name: a}]]", "5: $.what_if[0]: expected a mapping with keys"),
    (
        "what_if: [{name: a, speed: {factor: [2, 2]}}]",
        "5: $.what_if[0].name: 'a factor=2' is the name of $.what_if[0] too, choose another",
    ),
    (
        "network: {model: measured}",
        "5: $.network.table: measured needs one, give a file of nccl-tests output or CSV",
    ),
    (
        "what_if: [{name: a, network: {model: measured}}]",
        "5: $.what_if[0].network.table: measured needs one, give a file of nccl-tests output or CSV",
    ),
    (
        "network: {table: gone.csv}",
        "5: $.network.table: DIRECTORY/gone.csv: cannot be read: No such file or directory",
    ),
    (
        "network: {table: train.py}",
        "5: $.network.table: DIRECTORY/train.py:1: no times; expected output of nccl-tests, or CSV: "
        "collective,group_size,link,bytes,time_us",
    ),
    (
        "network: {topology: {kind: rail, pods: 2}}",
        "5: $.network.topology.pods: only two-tier has them, leave it null for rail",
    ),
    (
        "network: {topology: {oversubscription: 2}}",
        "5: $.network.topology.oversubscription: only rail and two-tier have it, leave it null for node",
    ),
    (
        "network: {topology: {kind: two-tier}}",
        "5: $.network.topology.pods: expected 1 to 1, the number of nodes, got null",
    ),
    (
        "what_if: [{name: a, network: {topology: {kind: two-tier, pods: [1, 3]}}}]",
        "5: $.what_if[0].network.topology.pods[1]: expected 1 to 1, the number of nodes, got 3",
    ),
    (
        "network: {algorithm: tree, topology: {kind: rail}}",
        "5: $.network.algorithm: tree is not available yet with topology rail, choose ring",
    ),
    (
        "network: {algorithm: auto}\nemulate: {contribution: prefolded}\nstages: [capture, calibrate, replay, emulate]",
        "6: $.emulate.contribution: prefolded is not available yet with network.algorithm auto, choose left or exact",
    ),
    ("fold: {mesh: {dp: 4, tp: 4}, over: [dp]}", "5: $.fold.mesh: dp 4 x tp 4 has 16 ranks, expected world.size 8"),
    ("fold: {mesh: {dp: 8, tp: 0}, over: [dp]}", "5: $.fold.mesh.tp: expected an integer of at least 1, got 0"),
    (
        "fold: {mesh: {dp: 4, tp: 2}, over: [dp, pp]}",
        "5: $.fold.over[1]: the mesh has no dimension 'pp', choose from dp, tp",
    ),
    ("fold: {mesh: {dp: 4, tp: 2}, over: [dp, dp]}", "5: $.fold.over[1]: dp is listed twice, keep one"),
    (
        "fold: {mesh: {dp: 8}, over: []}",
        "5: $.fold.over: expected a list of at least one [string, ...], got an empty list",
    ),
    (
        "fold: {mesh: {dp: 4, tp: 2}, over: [dp], verify: 7}",
        "5: $.fold.verify: only 6 ranks are folded, expected at most so many, got 7",
    ),
    (
        "fold: {mesh: {dp: 8}, over: [dp], verify: 1}\ncapture: {payloads: control}",
        "6: $.capture.payloads: ranks are verified with what was captured of others, and control keeps too little; "
        "choose all, or leave fold.verify 0",
    ),
    (
        "fold: {mesh: {dp: 4, tp: 2}, over: [dp]}\nemulate: {sandbox: [0, 3]}",
        "6: $.emulate.sandbox[1]: rank 3 is folded and does not run, choose one that does, such as 1",
    ),
    (
        "fold: {mesh: {dp: 4, tp: 2}, over: [dp]}\nfaults: [{rank: 4, at: {iteration: 1}, do: hang}]",
        "6: $.faults[0].rank: rank 4 is folded and does not run, choose one that does, such as 0",
    ),
    (
        "fold: {mesh: {dp: 4, tp: 2}, over: [dp]}\ncalibrate: {slice: [[0]]}",
        "6: $.calibrate.slice: 1 of 2 ranks are in no slice, the first is 1; those that are folded need none",
    ),
    ("stages: [capture, train]", "5: $.stages[1]: expected calibrate, capture, emulate or replay, got 'train'"),
    ("stages: []", "5: $.stages: expected at least one stage, choose from capture, calibrate, replay, emulate"),
    (
        "stages: [replay, capture]",
        "5: $.stages[1]: capture cannot follow replay, the order is capture, calibrate, replay, emulate",
    ),
    ("stages: [capture, capture]", "5: $.stages[1]: capture is listed twice, keep one"),
    (
        "capture: {iterations: 4}\ncalibrate: {iterations: 5}",
        "6: $.calibrate.iterations: 5 is more than capture.iterations, expected at most 4",
    ),
    (
        "capture: {iterations: 4}\nemulate: {iterations: 5}",
        "6: $.emulate.iterations: 5 is more than capture.iterations, expected at most 4",
    ),
    (
        "calibrate: {iterations: 3, warmup: 3}",
        "5: $.calibrate.warmup: 3 of 3 iterations leaves none to measure, expected at most 2",
    ),
    ("capture: {iterations: 2}", "1: $.calibrate.warmup: 2 of 2 iterations leaves none to measure, expected at most 1"),
    (
        "calibrate: {slice: 0}",
        "5: $.calibrate.slice: expected auto, node, an integer of at least 1 or a list [list [integer, ...], ...], "
        "got 0",
    ),
    (
        "calibrate: {slice: [[0, 1], [1, 2]]}",
        "5: $.calibrate.slice[1][0]: rank 1 is listed twice, keep one",
    ),
    (
        "calibrate: {slice: [[0, 1], [8]]}",
        "5: $.calibrate.slice[1][0]: rank 8 does not exist, world.size 8 has ranks 0 to 7",
    ),
    ("calibrate: {slice: [[0, 1], [3]]}", "5: $.calibrate.slice: 5 of 8 ranks are in no slice, the first is 2"),
    ("calibrate: {slice: [[0], []]}", "5: $.calibrate.slice[1]: an empty slice, list its ranks or leave it out"),
    ("calibrate: {slice: [[0, a]]}", "5: $.calibrate.slice[0][1]: expected an integer, got 'a'"),
    (
        "launcher: {kind: external}",
        "5: $.launcher.listen: expected tcp://host:port, where the workers reach the coordinator",
    ),
    (
        "launcher: {kind: external, listen: 'here:5711'}",
        "5: $.launcher.listen: expected tcp://host:port, got here:5711",
    ),
    (
        "launcher: {token_file: token}",
        "5: $.launcher.token_file: the launcher local starts its workers itself, leave it null",
    ),
    (
        "launcher: {workers: 2}\ndevices: {kind: cuda}",
        "5: $.launcher.workers: devices.kind cuda is not available yet for several workers, choose 1",
    ),
    (
        "output: {formats: [pdf]}",
        "5: $.output.formats[0]: expected chakra, html, kineto or perfetto, got 'pdf'",
    ),
]

NOT_AVAILABLE = [
    (
        "devices.spill=/tmp",
        "$.devices.spill: nothing is spilled without a bound on what may stay in memory, set devices.host_memory",
    ),
    ("emulate.prune=false", "$.emulate.prune: False is not available yet, choose from True"),
    (
        "what_if=[{name: a, world: {size: 16}}]",
        "$.what_if[0].world: a variant of world is not available yet, "
        "choose from name, slow, speed, fail, jitter, network, micro_batches, routing, replicas",
    ),
]

OVERRIDES = [
    ("world.sizes=3", "--set world.sizes: $.world.sizes: unknown key, did you mean size? valid: size, ranks_per_node"),
    ("wrold.size=3", f"--set wrold.size: $.wrold: unknown key, did you mean world? valid: {TOP}"),
    ("world.size", "--set world.size: $: expected key.path=value, such as world.size=8"),
    ("world.size=", "--set world.size: $.world.size: expected an integer of at least 1, got null"),
    ("world.size=[", "--set world.size: $.world.size: unreadable YAML:"),
    ("world.size.x=1", "--set world.size.x: $.world.size: expected an integer of at least 1, got a mapping"),
    ("world={size: 1, size: 2}", "--set world: $.world.size: duplicate key, first at --set world, keep one"),
    ("world.ranks_per_node=0", "--set world.ranks_per_node: $.world.ranks_per_node: expected an integer of at least 1"),
    ("program.env.A=~", "--set program.env.A: $.program.env.A: expected a string, got null"),
    ("program.args=[~]", "--set program.args: $.program.args[0]: expected a string, got null"),
    ("program.env={A=B: c}", '--set program.env: $.program.env["A=B"]: expected the name of an environment variable'),
]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "train.py").touch()
    return tmp_path


def refusal(path: Path, *overrides: str) -> str:
    """The text with which the file is refused, in one line."""
    with pytest.raises(ScenarioError) as caught:
        Scenario.load(path, overrides)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(("text", "line"), WHOLE_FILES)
def test_a_bad_file(directory: Path, text: str, line: str) -> None:
    file = directory / "job.yaml"
    file.write_text(text)
    assert refusal(file) == f"{file}:{line}".replace("DIRECTORY", str(directory))


@pytest.mark.parametrize(("added", "line"), ADDED_AT_LINE_5)
def test_a_bad_addition(directory: Path, added: str, line: str) -> None:
    file = directory / "job.yaml"
    file.write_text(f"{BASE}{added}\n")
    assert line.replace("FILE", str(file)).replace("DIRECTORY", str(directory)) in refusal(file)


@pytest.mark.parametrize(("override", "line"), NOT_AVAILABLE)
def test_what_is_not_available_yet(directory: Path, override: str, line: str) -> None:
    file = directory / "job.yaml"
    file.write_text(BASE)
    assert refusal(file, override) == f"--set {override.partition('=')[0]}: {line}"


@pytest.mark.parametrize(("override", "line"), OVERRIDES)
def test_a_bad_override(directory: Path, override: str, line: str) -> None:
    file = directory / "job.yaml"
    file.write_text(BASE)
    assert refusal(file, override).startswith(line)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(added=st.text("{}[]:,-&*!|>'\"\\ \n#%@`~?<=xU01\t\0", max_size=30))
def test_any_text_is_a_scenario_or_one_line(directory: Path, added: str) -> None:
    file = directory / "job.yaml"
    file.write_text(BASE + added)
    try:
        outcome = f"{file}:{Scenario.load(file).name}"
    except ScenarioError as caught:
        outcome = str(caught)
    assert outcome.startswith(f"{file}:")
    assert "\n" not in outcome


def test_an_override_is_blamed_only_for_what_it_says(directory: Path) -> None:
    file = directory / "job.yaml"
    file.write_text(BASE.replace("size: 8", "sise: 8"))
    assert refusal(file, "world.ranks_per_node=2").startswith(f"{file}:4: $.world.sise: unknown key")


def test_files_that_cannot_be_read(directory: Path) -> None:
    assert refusal(directory) == f"{directory}:1: $: is a directory, give the path of a scenario file"
    gone = directory / "gone.yaml"
    assert refusal(gone) == f"{gone}:1: $: no such file, give the path of a scenario"
    near = gone.with_name("mixture.yml")
    gone.with_name("mixture.yaml").touch()
    assert refusal(near) == f"{near}:1: $: no such file, did you mean {near.with_suffix('.yaml')}?"
    below = directory / "train.py" / "job.yaml"
    assert refusal(below) == f"{below}:1: $: cannot be read: Not a directory"
    latin = directory / "latin.yaml"
    latin.write_bytes(b"name: caf\xe9\n")
    assert refusal(latin) == f"{latin}:1: $: is not UTF-8 at byte 9, save it as UTF-8 text"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"world": World(size="8")}, "scenario: $.world.size: expected int, got str"),  # type: ignore[arg-type]
        ({"world": World(size=0)}, "scenario: $.world.size: expected int >= 1"),
        ({"name": Path("job")}, "scenario: $.name: encoding objects of type PosixPath is unsupported"),
        (
            {"what_if": (WhatIf(name="a", slow=Slow(ranks=(9,), factor=2.0)),)},
            "scenario: $.what_if[0].slow.ranks[0]: rank 9 does not exist, world.size 8 has ranks 0 to 7",
        ),
        (
            {"what_if": (WhatIf(name="a", slow=Slow(ranks=(1,), factor=0.0)),)},
            "scenario: $.what_if[0].slow.factor: expected float > 0.0",
        ),
        ({"program": Program()}, "scenario: $.program: expected one of script and module, got neither"),
    ],
)
def test_a_bad_scenario_built_in_code(changes: dict[str, Any], line: str) -> None:
    blocks: dict[str, Any] = {"name": "job", "program": Program(module="train"), "world": World(size=8)}
    with pytest.raises(ScenarioError) as caught:
        Scenario(**blocks | changes)
    assert str(caught.value) == line


def test_an_emulation_whose_sums_the_capture_would_not_keep(directory: Path) -> None:
    file = directory / "job.yaml"
    file.write_text(BASE)
    stages = "stages=[capture, calibrate, emulate]"
    assert "$.capture.payloads: control keeps no sums for the contribution left" in refusal(
        file, stages, "capture.payloads=control"
    )
    Scenario.load(file, [stages, "capture.payloads=control", "emulate.contribution=zeros"])
