"""A generated graph of a large job: pipeline x data x tensor parallel, 1F1B, built column by column with numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism.core.graph import DTYPES, LANE, NODE, OP, REDUCES, Graph, Group, NodeKind, OpKind, Stream

TENSOR, FORWARD_IN, FORWARD_OUT, BACKWARD_IN, BACKWARD_OUT, DATA = range(6)
"""Which operation a POST or WAIT of the program is about."""

Program = list[tuple[NodeKind, int, int]]  # kind, which operation (-1: none), its number among those of the rank


@dataclass(frozen=True)
class Shape:
    """How many stages, replicas and tensor shards (their product is the world), micro-batches, and layers a stage."""

    stages: int
    replicas: int
    shards: int
    micro_batches: int
    layers: int

    @property
    def world(self) -> int:
        return self.stages * self.replicas * self.shards


def program(shape: Shape, stage: int) -> Program:
    """What every rank of a stage does in one iteration: 1F1B, one tensor-parallel all_reduce a layer and direction."""
    steps: Program = []
    reduced = 0

    def call(which: int, number: int, wait: bool) -> None:
        steps.extend([(NodeKind.COMPUTE, -1, 0), (NodeKind.POST, which, number)])
        if wait:
            steps.extend([(NodeKind.COMPUTE, -1, 0), (NodeKind.WAIT, which, number)])

    def run(number: int, comes: int, goes: int, first: bool, last: bool) -> None:
        nonlocal reduced
        if not first:
            call(comes, number, wait=True)
        for _ in range(shape.layers):
            call(TENSOR, reduced, wait=True)
            reduced += 1
        if not last:
            call(goes, number, wait=False)

    is_first, is_last = stage == 0, stage == shape.stages - 1
    warm = min(shape.stages - stage - 1, shape.micro_batches)
    for k in range(shape.micro_batches + warm):
        if k < shape.micro_batches:
            run(k, FORWARD_IN, FORWARD_OUT, is_first, is_last)
        if k >= warm:
            run(k - warm, BACKWARD_IN, BACKWARD_OUT, is_last, is_first)
    call(DATA, 0, wait=True)
    steps.append((NodeKind.MARK, -1, 0))
    return steps


def graph(shape: Shape, seed: int = 0) -> Graph:
    """The job's graph with random durations around 1 ms; ranks are (stage, replica, shard), the last varies fastest."""
    pairs = shape.replicas * shape.shards
    tensor_ops = 2 * shape.micro_batches * shape.layers
    bases = np.cumsum([
        0, shape.stages * shape.replicas * tensor_ops, (shape.stages - 1) * pairs * shape.micro_batches,
        (shape.stages - 1) * pairs * shape.micro_batches, shape.stages * shape.shards,
    ])  # fmt: skip
    nodes, posts, waited, lengths = [], [], [], []
    start = 0
    for stage in range(shape.stages):
        kinds, which, number = np.array(program(shape, stage)).T
        replica, shard = np.divmod(np.arange(pairs), shape.shards)
        ops = _ops_of(shape, stage, which, number, replica[:, None], shard[:, None], bases, tensor_ops)
        table = np.zeros((pairs, len(kinds)), NODE)
        table["kind"], table["site"], table["ref"] = kinds, -1, np.where(kinds == NodeKind.POST, ops, -1)
        table["ref"][:, kinds == NodeKind.MARK] = 0
        index = start + np.arange(table.size).reshape(table.shape)
        posts.append(
            np.stack([ops[:, kinds == NodeKind.POST], index[:, kinds == NodeKind.POST]], axis=-1).reshape(-1, 2)
        )
        waited.append(ops[:, kinds == NodeKind.WAIT].ravel())
        nodes.append(table.ravel())
        lengths.append(np.full(pairs, len(kinds)))
        start += table.size
    return _assemble(shape, np.concatenate(nodes), np.concatenate(posts), np.concatenate(waited), lengths, bases, seed)


def _ops_of(shape, stage, which, number, replica, shard, bases, tensor_ops):  # type: ignore[no-untyped-def]
    """The op of every node of a stage's ranks, int64[ranks, nodes]."""
    pair, pairs = replica * shape.shards + shard, shape.replicas * shape.shards
    messages = shape.micro_batches
    choices = {
        TENSOR: bases[0] + (stage * shape.replicas + replica) * tensor_ops + number,
        FORWARD_IN: bases[1] + ((stage - 1) * pairs + pair) * messages + number,
        FORWARD_OUT: bases[1] + (stage * pairs + pair) * messages + number,
        BACKWARD_IN: bases[2] + (stage * pairs + pair) * messages + number,
        BACKWARD_OUT: bases[2] + ((stage - 1) * pairs + pair) * messages + number,
        DATA: bases[3] + stage * shape.shards + shard + 0 * number,
    }
    ops = np.full((pairs, len(which)), -1, np.int64)
    for kind, value in choices.items():
        ops = np.where(which == kind, value, ops)
    return ops


def _assemble(shape, nodes, posts, waited, lengths, bases, seed):  # type: ignore[no-untyped-def]
    count = int(bases[-1])
    ops = np.zeros(count, OP)
    ops["root"] = ops["tag"] = ops["prev"] = -1
    ops["dtype"] = DTYPES.index("bfloat16")
    tensor, messages, data = slice(0, bases[1]), slice(bases[1], bases[3]), slice(bases[3], count)
    per_group = 2 * shape.micro_batches * shape.layers
    for part, kind, nbytes, serial in (
        (tensor, OpKind.ALL_REDUCE, 32 << 20, per_group),
        (messages, OpKind.SEND_RECV, 32 << 20, shape.micro_batches),
        (data, OpKind.ALL_REDUCE, 512 << 20, 1),
    ):
        index = np.arange(part.start, part.stop)
        ops["kind"][part], ops["nbytes"][part] = kind, nbytes
        ops["seq"][part] = (index - part.start) % serial
        ops["prev"][part] = np.where(ops["seq"][part] > 0, index - 1, -1)
        ops["reduce"][part] = 0 if kind is OpKind.SEND_RECV else REDUCES.index("sum")
    groups = _groups(shape)
    pairs = shape.replicas * shape.shards
    ops["group"][tensor] = np.repeat(np.arange(shape.stages * shape.replicas), per_group)
    ops["group"][messages] = len(groups) - 1
    ops["group"][data] = shape.stages * shape.replicas + np.arange(shape.stages * shape.shards)
    # A message's sender posts first: within the op, forward messages by ascending rank, backward ones by descending.
    backward = (posts[:, 0] >= bases[2]) & (posts[:, 0] < bases[3])
    order = np.lexsort((np.where(backward, -posts[:, 1], posts[:, 1]), posts[:, 0]))
    sizes = np.bincount(posts[:, 0], minlength=count)
    rng = np.random.default_rng(seed)
    compute = nodes["kind"] == NodeKind.COMPUTE
    nodes["duration"][compute] = rng.integers(500_000, 1_500_000, int(compute.sum()))
    waits = nodes["kind"] == NodeKind.WAIT
    nodes["ref"][waits] = np.arange(int(waits.sum()))
    lanes = np.zeros(shape.world, LANE)
    lanes["rank"], lanes["stream"] = np.arange(shape.world), Stream.HOST
    empty = np.zeros(0, np.int64)
    assert pairs * shape.stages == shape.world
    return Graph(
        world_size=shape.world, groups=groups, lanes=lanes, lane_ptr=_pointers(np.concatenate(lengths)), nodes=nodes,
        ops=ops, post_ptr=_pointers(sizes), posts=posts[order, 1], wait_ptr=np.arange(len(waited) + 1), wait_ops=waited,
        split_ptr=np.zeros(count + 1, np.int64), splits=empty, clock="ns",
    )  # fmt: skip


def _groups(shape: Shape) -> tuple[Group, ...]:
    rank = np.arange(shape.world).reshape(shape.stages, shape.replicas, shape.shards)
    tensor = [Group(f"tensor {i}", tuple(map(int, ranks))) for i, ranks in enumerate(rank.reshape(-1, shape.shards))]
    by_shard = rank.transpose(0, 2, 1).reshape(-1, shape.replicas)
    data = [Group(f"data {i}", tuple(map(int, ranks))) for i, ranks in enumerate(by_shard)]
    return (*tensor, *data, Group("default", tuple(range(shape.world))))


def _pointers(lengths):  # type: ignore[no-untyped-def]
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
