"""Sums of real NCCL, and of the engine on the device in its place: as a program, one process of either.

    python -m tests.nccl.oracle real RANK SIZE DIRECTORY     one of SIZE ranks that share the GPU
    python -m tests.nccl.oracle device 0 SIZE DIRECTORY      member 0 beside virtual ones, with the library preloaded

NCCL runs rings on one channel by the Simple protocol, as the engine does; each process has a host of its own, as NCCL
sees it, since ranks of one host may not share a GPU. Each writes its results, by case, into the directory.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from prism.core.graph import OpKind
from prism.core.ring import chunks, order

DTYPES = {"float32": 7, "float16": 6, "bfloat16": 9}
"""NCCL's numbers of the types."""
BLOCKS = (4096, 1237)
"""Elements of one member's part: a simple number, and one that is no multiple of 16 bytes."""
LONG = {"float32": 600_000, "bfloat16": 1_200_000}
"""More than a chunk: a second loop."""


class Case(NamedTuple):
    """An all_reduce of SIZE blocks, or a reduce_scatter of them."""

    kind: OpKind
    dtype: str
    block: int

    @property
    def name(self) -> str:
        """As results are filed."""
        return f"{self.kind.name.lower()} {self.dtype} {self.block}"

    def inputs(self, size: int) -> list[torch.Tensor]:
        """What each member gives: numbers whose sum shows in which order they were added."""
        count = size * self.block + (5 if self.kind is OpKind.ALL_REDUCE else 0)
        draw = torch.Generator().manual_seed(count)
        scales = (10.0 ** torch.randint(-3, 3, (count,), generator=draw) for _ in range(size))
        return [(torch.randn(count, generator=draw) * scale).to(getattr(torch, self.dtype)) for scale in scales]

    def pieces(self, size: int) -> Iterator[tuple[int, int, int]]:
        """Elements from, to, and whose input comes last in their sum."""
        if self.kind is OpKind.ALL_REDUCE:
            return chunks(size * self.block + 5, getattr(torch, self.dtype).itemsize, size)
        return ((owner * self.block, (owner + 1) * self.block, owner) for owner in range(size))


KINDS = (OpKind.ALL_REDUCE, OpKind.REDUCE_SCATTER)
CASES = [
    *(Case(kind, dtype, block) for kind in KINDS for dtype in DTYPES for block in BLOCKS),
    *(Case(kind, dtype, block) for kind in KINDS for dtype, block in LONG.items()),
]


def sums(case: Case, given: list[torch.Tensor], ahead_of: int | None = None) -> torch.Tensor:
    """The ring's sums of all elements; with `ahead_of`, as they are just before that member's input is added."""
    total = torch.zeros_like(given[0])
    for start, stop, owner in case.pieces(len(given)):
        piece, ranks = slice(start, stop), order(owner, len(given))
        for place, rank in enumerate(ranks[: None if ahead_of is None else ranks.index(ahead_of)]):
            total[piece] = given[rank][piece] if place == 0 else total[piece] + given[rank][piece]
    return total


def result_of(case: Case, total: torch.Tensor, rank: int) -> torch.Tensor:
    """What a member gets of them."""
    return total if case.kind is OpKind.ALL_REDUCE else total[rank * case.block : (rank + 1) * case.block]


def real_environment(rank: int) -> dict[str, str]:
    """What makes NCCL do what the engine does, in a process that shares its GPU with others."""
    return {
        **os.environ, "NCCL_HOSTID": f"host-{rank}", "NCCL_NET": "Socket", "NCCL_SOCKET_IFNAME": "lo",
        "NCCL_IB_DISABLE": "1", "NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple", "NCCL_MIN_NCHANNELS": "1",
        "NCCL_MAX_NCHANNELS": "1",
    }  # fmt: skip


def _real(rank: int, size: int, directory: Path) -> dict[str, torch.Tensor]:
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", init_method=f"file://{directory}/store-{size}", rank=rank, world_size=size)
    results = {}
    for case in CASES:
        mine = case.inputs(size)[rank].cuda()
        output = mine if case.kind is OpKind.ALL_REDUCE else mine.new_empty(case.block)
        if case.kind is OpKind.ALL_REDUCE:
            dist.all_reduce(output)
        else:
            dist.reduce_scatter_tensor(output, mine)
        results[case.name] = output.cpu()
    dist.destroy_process_group()
    return results


class _Id(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_ubyte * 128),)


def _device(rank: int, size: int, directory: Path) -> dict[str, torch.Tensor]:
    """By the C interfaces alone: the engine is told of all cases, then NCCL's functions are called."""
    from prism.gpu.emulation.device import abi

    torch.ones(1, device="cuda")
    engine, nccl, unique = abi.load(), ctypes.CDLL(None), _Id((ctypes.c_ubyte * 128)(1, size))
    fifos = directory / f"fifos-{size}"
    fifos.mkdir()
    engine.begin(abi.Setup(directory=str(fifos).encode(), sandbox_ranks=1, device=0, arc_device=-1, pool_bytes=1 << 28))
    engine.group("all", size, rank, [rank])
    _plan(engine, size, rank, directory)
    engine.identify(bytes(unique), "all", range(size))
    engine.start()
    comm = ctypes.c_void_p()
    _done(nccl.ncclCommInitRank(ctypes.byref(comm), size, unique, rank), nccl)
    results = {}
    for case in CASES:
        mine = case.inputs(size)[rank].cuda()
        output = mine if case.kind is OpKind.ALL_REDUCE else mine.new_empty(case.block)
        call = nccl.ncclAllReduce if case.kind is OpKind.ALL_REDUCE else nccl.ncclReduceScatter
        places = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (mine, output)]
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        _done(call(*places, ctypes.c_size_t(len(output)), DTYPES[case.dtype], 0, comm, stream), nccl)
        results[case.name] = output.cpu()
        if engine.state().kind != abi.FINE:
            raise OSError(engine.state().text.decode())
    _done(nccl.ncclCommDestroy(comm), nccl)
    return results


def _plan(engine: Any, size: int, rank: int, directory: Path) -> None:
    """Each case's exact contribution, in files."""
    from prism.gpu.emulation.device.planned import Part, Planned

    for entry, case in enumerate(CASES):
        given, parts = case.inputs(size), []
        for name, total in (("head", sums(case, given, rank)), ("final", sums(case, given))):
            path = directory / f"{name}-{size}-{entry}"
            path.write_bytes(total.view(torch.uint8).numpy().tobytes())
            parts.append(Part(str(path), 0, path.stat().st_size))
        nothing: Any = None  # no step of a program stands behind it
        call = Planned(
            "all", -1, nothing, case.kind, case.dtype, 0, 0, len(given[0]), "sum", head=parts[0], final=parts[1]
        )
        engine.planned(call, entry)


def _done(status: int, nccl: ctypes.CDLL) -> None:
    if status:
        nccl.ncclGetLastError.restype = ctypes.c_char_p
        raise OSError(f"NCCL's result is {status}: {nccl.ncclGetLastError(None).decode()}")


if __name__ == "__main__":
    who, member, members, where = sys.argv[1:]
    run = {"real": _real, "device": _device}[who]
    torch.save(run(int(member), int(members), Path(where)), f"{where}/{who}-{members}-{member}.pt")
