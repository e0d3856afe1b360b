"""The blocks of a scenario that say what runs: the program, its world, the devices, and each stage."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from prism.core.devices import Model
from prism.core.folding.shape import Folding
from prism.scenario.block import Block, Bytes, Count, Factor, Timeout

Format = Literal["perfetto", "html", "kineto", "chakra"]


class Program(Block, frozen=True, kw_only=True):
    """The training program, unchanged; exactly one of `script` and `module` is given."""

    script: str | None = None
    """Path, relative to the scenario file."""

    module: str | None = None
    args: tuple[str, ...] = ()
    """What the program finds in sys.argv[1:], as it was written: `1.10` stays `1.10`."""

    env: dict[str, str] = msgspec.field(default_factory=dict)
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
    """Run one rank of each symmetry class only: the one at coordinate 0 along the folded dimensions."""

    mesh: dict[str, Count]
    """Dimension to extent; row-major, the last varies fastest."""

    over: Annotated[tuple[str, ...], Meta(min_length=1)]
    """Dimensions whose ranks behave alike."""

    verify: Annotated[int, Meta(ge=0)] = 0
    """How many of the other ranks run all the same, and are compared with those that stand for them."""

    compare: Literal["payloads", "steps"] = "payloads"
    """What is compared: steps, or also the bytes put in, which differ where replicas have data of their own."""

    seed: Annotated[int, Meta(ge=0)] = 0
    """Decides which ranks are verified."""

    @property
    def shape(self) -> Folding:
        """Who runs, and who stands for whom."""
        return Folding(self.mesh, self.over)


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
    """What the processes of all ranks may hold of the host's memory in a capture, in bytes; null sets no limit."""

    spill: str | None = None
    """Folder for what host memory cannot hold, relative to the scenario file; null: ranks are only held back."""


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

    arc_device: Annotated[int, Meta(ge=0)] | None = None
    """The GPU on which virtual ranks take part, by CUDA's number; null: that of the sandbox rank."""


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


class Launcher(Block, frozen=True, kw_only=True):
    """Who starts the workers, each on a host of its own."""

    kind: Literal["local", "ray", "external"] = "local"
    workers: Count = 1
    listen: str | None = None
    """Where the coordinator listens for workers, `tcp://host:port`; required for `external`."""

    token_file: str | None = None
    """For `external`: where the run's keys are written, relative to the scenario file; null: into the output folder."""

    wait: Timeout = 5 * 60 * 10**9
    """How long workers may be in coming, in ns."""


class Output(Block, frozen=True, kw_only=True):
    """Views of the result that are written beside it."""

    formats: tuple[Format, ...] = ("perfetto", "html")
