"""The engine behind its Python binding: results are the fold's, bit for bit, in every kind of collective."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest
import torch

from prism.core.graph import DTYPES, REDUCES, OpKind
from prism.core.ring import chunks, order
from prism.gpu.group.fold import NATIVE_DTYPES, NATIVE_REDUCES
from tests.gpu.folding import Store, rows, same

pytest.importorskip("prism.gpu.pruned", exc_type=ImportError)
from prism.gpu.pruned import Contribution, Op, Pipe, arcs
from tests.nccl.cast import Cast, address, together

SIZE = 5
SANDBOXES = [(0,), (3,), (0, 1), (1, 3), (0, 1, 2, 3, 4)]
FLOATS = ["float32", "float64", "float16", "bfloat16"]


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def folded(store: Path, kind: OpKind, given: list[torch.Tensor], reduce: str, **fields: object) -> torch.Tensor:
    """The result of the operation as a capture makes it."""
    return Store(Path(tempfile.mkdtemp(dir=store))).fold(kind, given, reduce, **fields)[0]


def before(given: list[torch.Tensor], member: int) -> torch.Tensor:
    """For each chunk of an all_reduce the total just before a member's input."""
    total = torch.zeros_like(given[0])
    for start, stop, owner in chunks(len(total), total.itemsize, SIZE):
        piece, ahead = slice(start, stop), order(owner, SIZE)
        ahead = ahead[: ahead.index(member)]
        for place, rank in enumerate(ahead):
            total[piece] = given[rank][piece] if place == 0 else total[piece] + given[rank][piece]
    return total


@pytest.mark.parametrize(
    ("enum", "names"), [("Dtype", DTYPES), ("Reduce", REDUCES[:-1]), ("Kind", [kind.name for kind in OpKind][:-1])]
)  # fmt: skip
def test_both_sides_number_things_alike(enum: str, names: list[str]) -> None:
    header = Path(__file__).parents[2].joinpath("ext", "nccl", "element.h").read_text()
    listed = re.search(rf"enum class {enum} : std::int32_t {{(.*?)}}", header, re.DOTALL)
    assert listed is not None
    known = [name.lower() for name in re.findall(r"\bk(\w+)", listed[1])]
    assert known == [name.lower().replace("_", "") for name in names]


@pytest.mark.parametrize("sandbox", SANDBOXES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_exact_contributions_give_the_bits_of_the_capture(tmp_path: Path, dtype: str, sandbox: tuple[int, ...]) -> None:
    given = rows(getattr(torch, dtype), size=SIZE)
    result = folded(tmp_path, OpKind.ALL_REDUCE, given, "sum")
    op = Op(OpKind.ALL_REDUCE, SIZE, dtype, "sum", count=len(given[0]))
    heads = {after: before(given, (members[-1] + 1) % SIZE) for after, members in arcs(SIZE, sandbox).items()}
    brought = {after: Contribution.exact(address(head), address(result)) for after, head in heads.items()}
    mine = {rank: given[rank].clone() for rank in sandbox}
    Cast(tmp_path, SIZE, sandbox).run(op, mine, mine, brought)
    assert all(same(mine[rank], result) for rank in sandbox)


@pytest.mark.parametrize("reduce", [*sorted(NATIVE_REDUCES), "band", "bor", "bxor"])
@pytest.mark.parametrize("dtype", sorted(NATIVE_DTYPES))
def test_members_reduce_as_the_fold_does(tmp_path: Path, dtype: str, reduce: str) -> None:
    given = rows(getattr(torch, dtype), size=SIZE)
    if given[0].is_floating_point():
        given[2][7] = float("nan")
    bitwise, floats = reduce in ("band", "bor", "bxor"), given[0].is_floating_point()
    op = Op(OpKind.ALL_REDUCE, SIZE, dtype, reduce, count=len(given[0]))
    cast, everybody = Cast(tmp_path, SIZE, range(SIZE)), range(SIZE)
    mine = {rank: given[rank].clone() for rank in everybody}
    if (bitwise and floats) or (reduce == "avg" and dtype == "bool"):
        with pytest.raises(ValueError, match="no such reduction"):
            cast.members[0].run(op, address(mine[0]), address(mine[0]))
        return
    cast.run(op, mine, mine)
    result = folded(tmp_path, OpKind.ALL_REDUCE, given, reduce)
    assert all(same(mine[rank], result) for rank in everybody)


@pytest.mark.parametrize("reduce", ["sum", "avg"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64"])
@pytest.mark.parametrize("sandbox", SANDBOXES[:-1])
def test_live_contributions_give_the_result_but_for_rounding(
    tmp_path: Path, dtype: str, reduce: str, sandbox: tuple[int, ...]
) -> None:
    given = [row / 1000 if row.is_floating_point() else row for row in rows(getattr(torch, dtype), size=SIZE)]
    result = folded(tmp_path, OpKind.ALL_REDUCE, given, reduce)
    op = Op(OpKind.ALL_REDUCE, SIZE, dtype, reduce, count=len(given[0]))
    brought = [row * (1 / SIZE) if reduce == "avg" and row.is_floating_point() else row for row in given]
    virtual = [row for rank, row in enumerate(brought) if rank not in sandbox]
    rest = torch.stack(virtual).sum(0).to(given[0].dtype)
    first, *others = arcs(SIZE, sandbox)
    contributions = dict.fromkeys(others, Contribution.left(0, 0)) | {first: Contribution.left(address(rest), 0)}
    mine = {rank: given[rank].clone() for rank in sandbox}
    Cast(tmp_path, SIZE, sandbox).run(op, mine, mine, contributions)
    for rank in sandbox:
        assert torch.equal(mine[rank], mine[sandbox[0]])
        torch.testing.assert_close(mine[rank], result, rtol=0.05 if dtype == "bfloat16" else 1e-5, atol=2e-3)


@pytest.mark.parametrize("sandbox", SANDBOXES[:-1])
def test_replicas_have_the_input_of_the_sandbox_member_before_them(tmp_path: Path, sandbox: tuple[int, ...]) -> None:
    given = rows(torch.int64, size=SIZE)
    for after, members in arcs(SIZE, sandbox).items():
        for member in members:
            given[member] = given[after]
    cast = Cast(tmp_path, SIZE, sandbox, replicas=True)
    for reduce in ("sum", "product", "max", "avg"):  # one after the other: the published input is written again
        result = folded(tmp_path, OpKind.ALL_REDUCE, given, reduce)
        op = Op(OpKind.ALL_REDUCE, SIZE, "int64", reduce, count=len(given[0]))
        mine = {rank: given[rank].clone() for rank in sandbox}
        cast.run(op, mine, mine, Contribution.replicas())
        assert all(torch.equal(mine[rank], result) for rank in sandbox)
    blocks = {rank: torch.zeros(SIZE * 3, dtype=torch.int64) for rank in sandbox}
    cast.run(
        Op(OpKind.ALL_GATHER, SIZE, "int64", count=3),
        {r: given[r][:3] for r in sandbox},
        blocks,
        Contribution.replicas(),
    )
    assert all(torch.equal(blocks[rank], torch.cat([row[:3] for row in given])) for rank in sandbox)


@pytest.mark.parametrize("sandbox", SANDBOXES[:-1])
def test_replicas_broadcast_what_the_sandbox_member_before_them_has(tmp_path: Path, sandbox: tuple[int, ...]) -> None:
    given = rows(torch.int64, size=SIZE)
    cast = Cast(tmp_path, SIZE, sandbox, replicas=True)
    for after, members in arcs(SIZE, sandbox).items():
        for root in members:  # who is not the root has no input, and its output is what it has
            whole = {rank: given[rank][:7].clone() for rank in sandbox}
            cast.run(Op(OpKind.BROADCAST, SIZE, "int64", root=root, count=7), {}, whole, Contribution.replicas())
            assert all(torch.equal(whole[rank], given[after][:7]) for rank in sandbox)


@pytest.mark.parametrize("sandbox", SANDBOXES[:-1])
def test_replicas_bring_zeros_where_nothing_of_the_sandbox_member_fits(
    tmp_path: Path, sandbox: tuple[int, ...]
) -> None:
    cast = Cast(tmp_path, SIZE, sandbox, replicas=True)
    counts = (1, 2, 3, 2, 1)
    blocks = {rank: torch.full((sum(counts),), 9) for rank in sandbox}
    ops = {r: Op(OpKind.ALL_GATHER, SIZE, "int64", count=counts[r], receives=counts) for r in sandbox}
    cast.run(ops, {r: torch.full((counts[r],), 5) for r in sandbox}, blocks, Contribution.replicas())
    expected = torch.cat([torch.full((counts[r],), 5 if r in sandbox else 0) for r in range(SIZE)])
    assert all(torch.equal(blocks[rank], expected) for rank in sandbox)
    root = next(iter(arcs(SIZE, sandbox).values()))[-1]
    parts = {rank: torch.full((3,), 9) for rank in sandbox}
    cast.run(Op(OpKind.SCATTER, SIZE, "int64", root=root, count=3), {}, parts)
    assert not any(part.any() for part in parts.values())


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_reduce_scatter_leaves_each_member_its_shard(tmp_path: Path, sandbox: tuple[int, ...]) -> None:
    shards = (7, 0, 600, 1, 395)
    given = rows(torch.float32, size=SIZE)
    result = folded(tmp_path, OpKind.REDUCE_SCATTER, given, "sum", splits=(shards,) * SIZE)
    op = Op(OpKind.REDUCE_SCATTER, SIZE, "float32", "sum", count=len(given[0]), sends=shards)
    totals = {}
    for after, members in arcs(SIZE, sandbox).items():
        b, at = (members[-1] + 1) % SIZE, 0
        totals[after] = torch.zeros_like(result)
        for owner, length in enumerate(shards):
            ahead = order(owner, SIZE)
            for place, rank in enumerate(ahead[: ahead.index(b)]):
                piece = given[rank][at : at + length]
                totals[after][at : at + length] = piece if place == 0 else totals[after][at : at + length] + piece
            at += length
    mine = {rank: torch.zeros(shards[rank]) for rank in sandbox}
    brought = {after: Contribution.exact(address(total), 0) for after, total in totals.items()}
    Cast(tmp_path, SIZE, sandbox).run(op, {rank: given[rank] for rank in sandbox}, mine, brought)
    expected = torch.split(result, list(shards))
    assert all(torch.equal(mine[rank], expected[rank]) for rank in sandbox)


@pytest.mark.parametrize("sandbox", SANDBOXES)
@pytest.mark.parametrize("dtype", ["float32", "complex64", "float8_e4m3fn"])
def test_what_is_only_moved_may_be_of_any_type(tmp_path: Path, dtype: str, sandbox: tuple[int, ...]) -> None:
    everything = torch.randint(0, 255, (SIZE * 8 * 8,), dtype=torch.uint8)
    item = getattr(torch, dtype).itemsize
    blocks = everything[: SIZE * 8 * item].reshape(SIZE, 8 * item)
    cast = Cast(tmp_path, SIZE, sandbox)
    out = {rank: torch.zeros(SIZE * 8 * item, dtype=torch.uint8) for rank in sandbox}
    brought = Contribution.left(0, address(blocks))
    cast.run(Op(OpKind.ALL_GATHER, SIZE, dtype, count=8), {r: blocks[r] for r in sandbox}, out, brought)
    assert all(torch.equal(out[rank], blocks.reshape(-1)) for rank in sandbox)
    for root in range(SIZE):
        out = {rank: torch.zeros(8 * item, dtype=torch.uint8) for rank in sandbox if rank != root}
        source = {root: blocks[root]} if root in sandbox else {}
        op = Op(OpKind.BROADCAST, SIZE, dtype, root=root, count=8)
        cast.run(op, source, out, Contribution.left(0, address(blocks[root])))
        assert all(torch.equal(tensor, blocks[root]) for tensor in out.values())


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_blocks_that_are_exchanged_in_pairs(tmp_path: Path, sandbox: tuple[int, ...]) -> None:
    splits = torch.randint(0, 4, (SIZE, SIZE), generator=torch.manual_seed(1))
    given = [torch.arange(int(splits[r].sum())) + 100 * r for r in range(SIZE)]
    result = [torch.cat([given[i].split(splits[i].tolist())[r] for i in range(SIZE)]) for r in range(SIZE)]
    cast = Cast(tmp_path, SIZE, sandbox)
    ops = {
        r: Op(OpKind.ALL_TO_ALL, SIZE, "int64", count=len(given[r]), sends=tuple(splits[r].tolist()),
              receives=tuple(splits[:, r].tolist()))
        for r in sandbox
    }  # fmt: skip
    out = {rank: torch.zeros_like(result[rank]) for rank in sandbox}
    data = {rank: result[rank] for rank in sandbox}
    cast.run(ops, {r: given[r] for r in sandbox}, out, data=data)
    assert all(torch.equal(out[rank], result[rank]) for rank in sandbox)
    for root in range(SIZE):
        whole = torch.arange(SIZE * 3)
        mine = {rank: whole[rank * 3 : rank * 3 + 3].clone() for rank in sandbox}
        out = {rank: torch.zeros(SIZE * 3 if rank == root else 0, dtype=torch.int64) for rank in sandbox}
        cast.run(Op(OpKind.GATHER, SIZE, "int64", root=root, count=3), mine, out, data=dict.fromkeys(sandbox, whole))
        assert root not in sandbox or torch.equal(out[root], whole)
        got = {rank: torch.zeros(3, dtype=torch.int64) for rank in sandbox}
        cast.run(Op(OpKind.SCATTER, SIZE, "int64", root=root, count=3), {root: whole}, got, data=mine)
        assert all(torch.equal(got[rank], mine[rank]) for rank in sandbox)


def test_a_member_may_work_in_place(tmp_path: Path) -> None:
    given = rows(torch.float32, count=SIZE * 4, size=SIZE)
    result = folded(tmp_path, OpKind.REDUCE_SCATTER, given, "sum", splits=((4,) * SIZE,) * SIZE)
    cast = Cast(tmp_path, SIZE, range(SIZE))
    mine = {rank: row.clone() for rank, row in enumerate(given)}
    shards = {rank: mine[rank][rank * 4 : rank * 4 + 4] for rank in mine}
    cast.run(Op(OpKind.REDUCE_SCATTER, SIZE, "float32", "sum", count=SIZE * 4), mine, shards)
    cast.run(Op(OpKind.ALL_GATHER, SIZE, "float32", count=4), shards, mine)
    assert all(torch.equal(mine[rank], result) for rank in mine)


@pytest.mark.parametrize("nbytes", [0, 1, 512 * 1024, 5 * 1024 * 1024 + 3])
def test_messages_arrive_whole_and_in_order(tmp_path: Path, nbytes: int) -> None:
    sent = torch.randint(0, 255, (nbytes,), dtype=torch.uint8)
    out = [torch.zeros_like(sent) for _ in range(3)]
    with Pipe(tmp_path, "a -> b, tag 0") as a, Pipe(tmp_path, "a -> b, tag 0") as b:

        def send() -> None:
            a.send(address(sent), nbytes)
            a.send(0, nbytes)
            a.send(address(sent), nbytes, start=1, duration=1000)

        def receive() -> None:
            b.recv(address(out[0]), nbytes)
            b.recv(0, nbytes)
            b.recv(address(out[2]), nbytes)

        together(tmp_path, send, receive)
    assert torch.equal(out[0], sent)
    assert not out[1].any()
    assert torch.equal(out[2], sent)


def test_what_the_engine_is_given_is_kept_for_it() -> None:
    given = [Op(OpKind.ALL_TO_ALL, 5, "int64", sends=(i, 2, 3, 4, 5), receives=(1, 2, 3, 4, i)).c() for i in range(100)]
    others = [torch.full((5,), -1) for _ in range(1000)]  # in whatever memory is free
    assert all((op.sends[0], op.receives[4]) == (i, i) for i, op in enumerate(given))
    assert len(others) == 1000
