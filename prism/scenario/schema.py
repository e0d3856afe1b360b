"""The schema of a scenario: which program to run as how many ranks, on what, and what to find out.

One struct a block. A YAML file gives quantities with units (`80GiB`, `1.5ms`, `50GB/s`); in the structs they are
integers: bytes, nanoseconds, bytes per second. A scenario that exists is a valid one, however it was made.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from prism.core.devices import Model
from prism.errors import ScenarioError
from prism.scenario.availability import refuse_unavailable, refuse_unavailable_variants
from prism.scenario.flaw import Flaw
from prism.scenario.quantities import RATE, SIZE, TIME
from prism.scenario.reader import read_fields
from prism.scenario.rules import Stage, refuse_impossible
from prism.scenario.sweeps import Sweeps
from prism.scenario.yaml_source import Scalar, Tree, read_file

VERSION: Final = 1

Count = Annotated[int, Meta(ge=1)]
Factor = Annotated[float, Meta(gt=0, le=10**6)]
Bytes = Annotated[int, Meta(gt=0, extra={"quantity": SIZE})]
Nanoseconds = Annotated[int, Meta(ge=0, extra={"quantity": TIME})]
Timeout = Annotated[int, Meta(gt=0, extra={"quantity": TIME})]
Bandwidth = Annotated[int, Meta(gt=0, extra={"quantity": RATE})]

LATER_BLOCKS: Final[dict[str, tuple[str, ...]]] = {
    "capture": ("calibrate", "network", "what_if", "emulate"),
    "calibrate": ("network", "what_if", "emulate"),
}
"""Blocks that decide nothing about a stage, so that a change in them leaves it done."""

Format = Literal["perfetto", "html", "kineto", "chakra"]


class Block(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mapping of the scenario. (Type checkers do not inherit `frozen`, hence its repetition below.)"""


class Program(Block, frozen=True, kw_only=True):
    """The training program, unchanged; exactly one of `script` and `module` is given."""

    script: str | None = None
    """Path, relative to the scenario file."""

    module: str | None = None
    args: tuple[str, ...] = ()
    """What the program finds in sys.argv[1:], as it was written: `1.10` stays `1.10`."""

    env: dict[str, str] = {}
    """Added to the environment of every rank."""

    preload: tuple[str, ...] = ()
    """Modules that the worker imports once, before it forks the ranks."""


class World(Block, frozen=True, kw_only=True):
    """The logical ranks. Ranks are dealt to nodes in blocks; the last node takes what is left."""

    size: Count
    ranks_per_node: Count = 8

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return -(-self.size // self.ranks_per_node)

    def node_ranks(self, node: int) -> range:
        """The global ranks of one node; its length is the LOCAL_WORLD_SIZE there."""
        first = node * self.ranks_per_node
        return range(first, min(first + self.ranks_per_node, self.size))


class Fold(Block, frozen=True, kw_only=True):
    """Run one rank of each symmetry class only."""

    mesh: dict[str, int]
    """Dimension to extent; row-major, the last varies fastest."""

    over: tuple[str, ...]
    """Dimensions whose ranks behave alike."""

    verify: int = 0
    """How many folded ranks run all the same, to check the symmetry."""


class Iteration(Block, frozen=True, kw_only=True):
    """Where an iteration ends."""

    marker: str = "optimizer"
    """`optimizer`: at each step of the first torch optimizer; `module:qualname`: at each call of that function."""


class Devices(Block, frozen=True, kw_only=True):
    """What the ranks share."""

    kind: Literal["auto", "cpu", "cuda"] = "auto"
    present_as: Model | None = None
    """The device model that the program is told it has, on a machine without; null: what there is."""

    slots: Count = 2
    """How many ranks run at one time; the others wait for their turn."""

    memory: Bytes | None = None
    """Capacity of a device, in bytes, of which each rank has one; null sets no limit."""

    host_memory: Bytes | None = None
    """Host memory for ranks that are switched out, in bytes; null sets no limit, the only choice so far."""

    spill: str | None = None
    """Directory for what host memory cannot hold."""


class Link(Block, frozen=True, kw_only=True):
    """One link class; bandwidth in bytes per second for each rank and direction, latency in ns."""

    bandwidth: Bandwidth
    latency: Nanoseconds


class LinkChange(Block, frozen=True, kw_only=True):
    """The parts of a link that a variant replaces; null keeps the base's."""

    bandwidth: Bandwidth | None = None
    latency: Nanoseconds | None = None

    def applied(self, link: Link) -> Link:
        """The link with these parts replaced."""
        latency = link.latency if self.latency is None else self.latency
        return Link(bandwidth=self.bandwidth or link.bandwidth, latency=latency)


class Topology(Block, frozen=True, kw_only=True):
    """How nodes are wired together, and with it which ops have to share links."""

    kind: Literal["node", "rail", "two-tier"] = "node"
    """node: every op has its links to itself; rail: one switch for the ranks with one place in their node; two-tier:
    one for the nodes of a pod."""

    pods: Count | None = None
    """For `two-tier`, and required there: the nodes are dealt to so many pods in blocks."""

    oversubscription: Factor | None = None
    """How many times more bandwidth a switch has to its ranks than to the other switches; null: the same."""


class Network(Block, frozen=True, kw_only=True):
    """What communication costs."""

    model: Literal["alpha-beta", "measured", "none"] = "alpha-beta"
    table: str | None = None
    """For `measured`, and required there: a file of costs, relative to the scenario file."""

    intra_node: Link = Link(bandwidth=450 * 10**9, latency=3_000)
    inter_node: Link = Link(bandwidth=50 * 10**9, latency=8_000)
    topology: Topology = Topology()


class NetworkChange(Block, frozen=True, kw_only=True):
    """The parts of the network that a variant replaces."""

    model: Literal["alpha-beta", "measured", "none"] | None = None
    table: str | None = None
    intra_node: LinkChange = LinkChange()
    inter_node: LinkChange = LinkChange()
    topology: Topology | None = None

    def applied(self, network: Network) -> Network:
        """The network with these parts replaced."""
        return msgspec.structs.replace(
            network,
            model=self.model or network.model,
            table=self.table or network.table,
            topology=self.topology or network.topology,
            intra_node=self.intra_node.applied(network.intra_node),
            inter_node=self.inter_node.applied(network.inter_node),
        )


class Capture(Block, frozen=True, kw_only=True):
    """The run of all ranks that yields the graph."""

    iterations: Count | None = None
    """Ranks end after this many iterations; null: when the program ends."""

    payloads: Literal["all", "control", "none"] = "all"
    """Which tensors of collectives are recorded."""


class Calibrate(Block, frozen=True, kw_only=True):
    """The runs, slice by slice, that yield durations."""

    iterations: Count | None = None
    """How many are measured, warm-up included; null: all that were captured."""

    warmup: Annotated[int, Meta(ge=0)] = 2
    """First iterations whose times are left out."""

    slice: Literal["auto", "node"] | Count | tuple[tuple[int, ...], ...] = "auto"
    """Ranks that run at one time: as many as there are slots, a node's, a number, or lists that partition the ranks."""

    answers: Literal["auto", "fast", "paced"] = "auto"
    """When answers from outside the slice come: at once, or at the time at which the virtual ranks would give them."""

    share: Literal["signature", "none"] = "none"
    """Whether of ranks that do the same only samples are measured, which stand for all if they agree."""


class Emulate(Block, frozen=True, kw_only=True):
    """The run of the sandbox ranks in wall time among virtual ranks."""

    sandbox: Annotated[tuple[int, ...], Meta(min_length=1)] = (0,)
    """Ranks that run the program; all others are virtual."""

    iterations: Count | None = None
    """Null: all that were captured."""

    prune: bool = True
    """Whether only the neighbours of sandbox ranks exchange bytes."""

    contribution: Literal["left", "exact", "prefolded", "replicas", "zeros"] = "left"
    """What the virtual ranks put into a reduction."""

    pool: Bytes = 1024**3
    """Bound of the prefetched payloads, in bytes."""

    program: str | None = None
    """Another program for the sandbox ranks: a path, relative to the scenario file."""


class Moment(Block, frozen=True, kw_only=True):
    """A point in the life of a rank: the start of an iteration, counted from 0."""

    iteration: Annotated[int, Meta(ge=0)]


class Fault(Block, frozen=True, kw_only=True):
    """A misfortune that one rank acts out, in every stage that runs the program."""

    rank: int
    at: Moment
    until: Moment | None = None
    """For `slow`: when it is over; null: never."""

    do: Literal["slow", "hang", "exit", "raise", "oom"]
    factor: Factor | None = None
    """For `slow`, and required there: what compute durations are multiplied by; at least 1."""


class Slow(Block, frozen=True, kw_only=True, rename={"since": "from"}):
    """Some ranks compute slower (factor above 1) or faster (below 1); times count from the start of the replay."""

    ranks: Annotated[tuple[int, ...], Meta(min_length=1)]
    factor: Factor
    since: Nanoseconds | None = None
    """`from` in a file; null: from the start."""

    until: Nanoseconds | None = None
    """Null: to the end."""

    period: Nanoseconds | None = None
    """Slow from `from` to `until`, and again after every such time, as with thermal throttling; null: once."""

    @property
    def is_timed(self) -> bool:
        """Whether it depends on the time of the replay."""
        return self.since is not None or self.until is not None


class Speed(Block, frozen=True, kw_only=True):
    """All ranks compute so many times as long: a slower device (factor above 1), or a faster one (below 1)."""

    factor: Factor


class Fail(Block, frozen=True, kw_only=True):
    """A rank stops at a time that counts from the start of the replay."""

    rank: int
    at: Nanoseconds


class Jitter(Block, frozen=True, kw_only=True):
    """Every compute segment is drawn from a lognormal distribution around its duration, and the job replayed."""

    sigma: Annotated[float, Meta(gt=0, le=2)]
    """Standard deviation of the logarithm: 0.05 is about 5 %."""

    seed: Annotated[int, Meta(ge=0)] = 0
    draws: Annotated[int, Meta(ge=1, le=10_000)] = 100


class MicroBatches(Block, frozen=True, kw_only=True, rename={"before": "from", "after": "to"}):
    """Each iteration of a pipeline has another number of micro-batches."""

    before: Annotated[int, Meta(ge=2)]
    """`from` in a file: how many the program has; of one alone nothing tells how it goes on."""

    after: Count
    """`to` in a file."""


class Routing(Block, frozen=True, kw_only=True):
    """Tokens go to experts in another proportion, where one all_to_all takes them there and another back."""

    hottest: Annotated[float, Meta(ge=1, le=10**6)]
    """What the busiest rank of a group gets, over the mean of all its ranks; 1: all get the same."""

    group: str | None = None
    """The process group that routes, by its name; null: all that do."""


class Replicas(Block, frozen=True, kw_only=True):
    """The mesh of the job is longer along one dimension, whose new ranks do what those that were captured do."""

    mesh: dict[str, Count]
    """Dimension to extent, as captured; row-major, the last varies fastest."""

    over: str
    """The dimension."""

    to: Count
    """Its extent in the variant, a multiple of the captured one."""


class WhatIf(Block, frozen=True, kw_only=True):
    """A variant of the replay."""

    name: str
    slow: Slow | None = None
    speed: Speed | None = None
    fail: Fail | None = None
    jitter: Jitter | None = None
    network: NetworkChange = NetworkChange()
    micro_batches: MicroBatches | None = None
    routing: Routing | None = None
    replicas: Replicas | None = None

    def world(self, captured: World) -> World:
        """The world that the variant replays."""
        if self.replicas is None:
            return captured
        size = captured.size // self.replicas.mesh[self.replicas.over] * self.replicas.to
        return msgspec.structs.replace(captured, size=size)


class Launcher(Block, frozen=True, kw_only=True):
    """Who starts the workers."""

    kind: Literal["local", "ray", "external"] = "local"


class Output(Block, frozen=True, kw_only=True):
    """Views of the result that are written beside it."""

    formats: tuple[Format, ...] = ("perfetto", "html")


class Scenario(Block, frozen=True, kw_only=True):
    """A whole scenario; making an invalid one raises ScenarioError, `place: $.path: what is wrong, and the fix`."""

    prism: Literal[1] = VERSION
    """Version of the schema."""

    name: str
    program: Program
    world: World
    fold: Fold | None = None
    semantics: Literal["auto", "nccl", "gloo"] = "auto"
    """Whose rules of communication hold; auto: group by group, those of the backend that the program asked for."""

    iteration: Iteration = Iteration()
    devices: Devices = Devices()
    network: Network = Network()
    capture: Capture = Capture()
    calibrate: Calibrate = Calibrate()
    emulate: Emulate = Emulate()
    faults: tuple[Fault, ...] = ()
    what_if: tuple[WhatIf, ...] = ()
    hang_after: Timeout = 600 * 10**9
    """Virtual or idle time, in ns, after which a rank that neither posts nor ends is reported."""

    launcher: Launcher = Launcher()
    stages: tuple[Stage, ...] = ("capture", "calibrate", "replay")
    output: Output = Output()
    path: Annotated[str | None, Meta(extra={"internal": True})] = None
    """The file that the scenario was read from, absolute; no key of the file, null for one built in code."""

    def __post_init__(self) -> None:
        _read_again(self)
        refuse_impossible(self)
        refuse_unavailable(self)

    @classmethod
    def load(cls, path: str | os.PathLike[str], overrides: Iterable[str] = ()) -> Scenario:
        """Read a scenario file, with `key.path=value` overrides (values are YAML); raises ScenarioError in one line."""
        name = os.fspath(path)
        source = read_file(name)
        for assignment in overrides:
            source = source.override(assignment)
        try:
            _refuse_other_version(source.tree)
            refuse_unavailable_variants(source.tree, cls.__struct_fields__, WhatIf.__struct_fields__)
            sweeps = Sweeps(source.tree)
        except Flaw as flaw:
            raise flaw.at(source.place(flaw.path)) from None
        try:
            return cls(**read_fields(cls, sweeps.tree), path=os.path.abspath(name))
        except Flaw as flaw:
            written = sweeps.written(flaw.path)
            raise Flaw(written, flaw.what, source.place(written)) from None

    @property
    def base(self) -> Path:
        """The directory that paths of the scenario are relative to: the file's, or the working directory."""
        return Path(self.path).parent if self.path else Path.cwd()

    @property
    def script(self) -> Path | None:
        """The program's script as an absolute path; None for a module."""
        return self.base / self.program.script if self.program.script else None

    def slices(self, ranks: Sequence[int] | None = None) -> tuple[tuple[int, ...], ...]:
        """The slices, in the order in which they run, that calibrate these ranks, ascending; left out: all."""
        wanted = range(self.world.size) if ranks is None else ranks
        chosen = self.calibrate.slice
        if isinstance(chosen, int) or chosen == "auto":
            width = self.devices.slots if chosen == "auto" else chosen
            return tuple(tuple(wanted[first : first + width]) for first in range(0, len(wanted), width))
        fixed = map(self.world.node_ranks, range(self.world.nodes)) if chosen == "node" else chosen
        kept = (tuple(rank for rank in slice if rank in wanted) for slice in fixed)
        return tuple(slice for slice in kept if slice)

    def digest(self, stage: Stage = "replay") -> str:
        """SHA-256 of all that decides what a stage computes: not where the file lies, which stages run or the views."""
        content = msgspec.to_builtins(self)
        for key in ("path", "stages", "output", *LATER_BLOCKS.get(stage, ())):
            del content[key]
        return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()


def _refuse_other_version(tree: Tree) -> None:
    """Before anything else is judged: a file of another version has other keys."""
    if isinstance(tree, dict) and tree.get("prism") != Scalar(str(VERSION)):
        raise Flaw(("prism",), f"expected version {VERSION} of the schema, write `prism: {VERSION}`")


def _read_again(scenario: Scenario) -> None:
    """Python checks no annotations: what was built in code is put through the schema too, and lists become tuples."""
    for field in msgspec.structs.fields(scenario):
        given = getattr(scenario, field.name)
        try:
            value = msgspec.convert(msgspec.to_builtins(given), field.type)
        except (msgspec.ValidationError, TypeError) as error:
            what, _, where = str(error).replace("`", "").partition(" - at $")
            raise ScenarioError(f"scenario: $.{field.name}{where}: {what[0].lower()}{what[1:]}") from None
        msgspec.structs.force_setattr(scenario, field.name, value)
