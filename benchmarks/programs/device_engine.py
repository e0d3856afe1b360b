"""The engine on the device, in NCCL's place: one member of a group whose other members are virtual, and not paced.

    python device_engine.py MEMBERS ARC_DEVICE [BYTES...]     ARC_DEVICE: the GPU of the virtual members; -1: the same

The library is preloaded; everything goes by its C interfaces: all_reduces of float32 on a stream with work queued
before and behind. Prints `ENGINE {json}`: by bytes the times in microseconds; `start`: what the engine took to start.
"""

from __future__ import annotations

import ctypes
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks.programs.held import turn
from benchmarks.programs.links import BEFORE_CYCLES, ROUNDS, SIZES, WARM_UPS
from benchmarks.programs.passing import FLOAT, SUM, Id, done
from prism.core.graph import OpKind
from prism.gpu.emulation.device import abi
from prism.gpu.emulation.device.planned import Planned

MODE_LEFT = 1  # without payloads: zeros
GROUP = "all"


def begun(members: int, arc_device: int, sizes: list[int], directory: Path) -> abi.Device:
    """The engine, which has been told of all that will be called."""
    engine = abi.load()
    engine.begin(
        abi.Setup(
            directory=str(directory).encode(), sandbox_ranks=1, device=0, arc_device=arc_device, pool_bytes=1 << 20,
            mode=MODE_LEFT,
        )
    )  # fmt: skip
    engine.group(GROUP, members, 0, [0])
    nothing: Any = None  # no step of a program stands behind it
    for entry in range(len(sizes) * (WARM_UPS + ROUNDS)):
        count = sizes[entry // (WARM_UPS + ROUNDS)] // 4
        engine.planned(Planned(GROUP, -1, nothing, OpKind.ALL_REDUCE, "float32", 0, 0, count, "sum"), entry)
    return engine


def times_us(nccl: ctypes.CDLL, comm: ctypes.c_void_p, nbytes: int) -> list[float]:
    """Of the stream, one for each round."""
    tensor, found = torch.zeros(nbytes // 4, device="cuda"), []
    place, stream = ctypes.c_void_p(tensor.data_ptr()), ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    for number in range(WARM_UPS + ROUNDS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        torch.cuda._sleep(BEFORE_CYCLES)  # type: ignore[no-untyped-call]
        begin.record()
        done(nccl.ncclAllReduce(place, place, ctypes.c_size_t(nbytes // 4), FLOAT, SUM, comm, stream))
        end.record()
        torch.cuda._sleep(1000)  # type: ignore[no-untyped-call]
        end.synchronize()
        if number >= WARM_UPS:
            found.append(begin.elapsed_time(end) * 1e3)
    return found


def main() -> None:
    """One process."""
    members, arc_device = int(sys.argv[1]), int(sys.argv[2])
    sizes = [int(each) for each in sys.argv[3:]] or SIZES
    torch.cuda.set_device(0)
    torch.ones(1, device="cuda")
    nccl, unique, comm = ctypes.CDLL(None), Id((ctypes.c_ubyte * 128)(1)), ctypes.c_void_p()
    with tempfile.TemporaryDirectory() as folder:
        engine = begun(members, arc_device, sizes, Path(folder))
        engine.identify(bytes(unique), GROUP, range(members))
        engine.start()
        done(nccl.ncclCommInitRank(ctypes.byref(comm), members, unique, 0))
        with turn():
            found: dict[str, Any] = {str(nbytes): times_us(nccl, comm, nbytes) for nbytes in sizes}
        if (report := engine.state()).kind != abi.FINE:
            raise OSError(report.text.decode())
        found["start"] = engine.measure().start_seconds
        done(nccl.ncclCommDestroy(comm))
    print("ENGINE", json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
