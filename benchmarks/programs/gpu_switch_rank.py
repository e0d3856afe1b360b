"""A training process of 6 GiB that does what it is told, a line a command, and answers each with a line of JSON.

train N | out | back PATIENCE_MS | spill FILE | rate GIB | copies out/back GIB N | fill BYTES | empty | end
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from prism.gpu.cuda.residency_abi import Moved, Paging

WIDTH, HEADS, LAYERS, BATCH, LENGTH = 2048, 16, 8, 8, 512


class Training:
    """Eight transformer layers of 2,048 in bf16, and AdamW."""

    def __init__(self, layers: int) -> None:
        torch.manual_seed(1)
        layer = [
            nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0, batch_first=True, norm_first=True)
            for _ in range(layers)
        ]
        self._model = nn.Sequential(*layer).to("cuda", torch.bfloat16)
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=1e-4)
        self._input = torch.randn(BATCH, LENGTH, WIDTH, device="cuda", dtype=torch.bfloat16)

    def step(self) -> float:
        self._optimizer.zero_grad()
        loss = self._model(self._input).float().square().mean()
        loss.backward()
        self._optimizer.step()
        return float(loss)

    def train(self, steps: int) -> dict[str, Any]:
        start = time.perf_counter()
        losses = [self.step() for _ in range(steps)]
        torch.cuda.synchronize()
        return {"losses": losses, "ms": 1e3 * (time.perf_counter() - start) / steps}


def rate(gib: float) -> dict[str, float]:
    """GB/s of copies between pinned memory and the device: alone each way, and both ways at once."""
    nbytes = int(gib * (1 << 30))
    host = [torch.empty(nbytes, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    device = [torch.empty(nbytes, dtype=torch.uint8, device="cuda") for _ in range(2)]
    streams = [torch.cuda.Stream() for _ in range(2)]

    def run(out: bool, back: bool) -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        for wanted, stream, to, source in (
            (out, streams[0], host[0], device[0]),
            (back, streams[1], device[1], host[1]),
        ):
            with torch.cuda.stream(stream):
                if wanted:
                    to.copy_(source, non_blocking=True)
        torch.cuda.synchronize()
        return (out + back) * nbytes / (time.perf_counter() - start) / 1e9

    run(True, True)
    return {"out": run(True, False), "back": run(False, True), "both": max(run(True, True) for _ in range(3))}


def copies(way: str, gib: float, times: int) -> dict[str, float]:
    """Copy so much so often, out of the device or back; when that began and ended, by a clock that processes share."""
    host, device = buffers(int(gib * (1 << 30)))
    torch.cuda.synchronize()
    begin = time.monotonic()
    for _ in range(times):
        if way == "out":
            host.copy_(device, non_blocking=True)
        else:
            device.copy_(host, non_blocking=True)
    torch.cuda.synchronize()
    return {"begin": begin, "end": time.monotonic(), "bytes": times * host.numel()}


@functools.cache
def buffers(nbytes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Pinned memory and the device's."""
    return (
        torch.empty(nbytes, dtype=torch.uint8, pin_memory=True),
        torch.empty(nbytes, dtype=torch.uint8, device="cuda"),
    )


class Beside:
    """Memory of the device that others do not get."""

    def __init__(self) -> None:
        self._held: torch.Tensor | None = None

    def fill(self, left: int) -> dict[str, Any]:
        torch.cuda.synchronize()
        self._held = torch.empty(max(0, torch.cuda.mem_get_info()[0] - left), dtype=torch.uint8, device="cuda")
        return memory()

    def empty(self) -> dict[str, Any]:
        self._held = None
        torch.cuda.empty_cache()
        return memory()


def memory() -> dict[str, Any]:
    free, total = torch.cuda.mem_get_info()
    told = {"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}
    return {**told, "free": free, "total": total}


def moved(what: Moved) -> dict[str, int]:
    return {"bytes": what.bytes, "ns": what.ns, "free": what.free}


def main() -> None:
    layers = int(os.environ.get("LAYERS", LAYERS))
    training = Training(layers)
    preloaded = os.environ.get("LD_PRELOAD")
    paging = Paging(Path(preloaded)) if preloaded else None
    if paging:
        paging.open(Path(os.environ["POOL"]), int(os.environ["SLOTS"]), os.getpid())
    beside = Beside()
    commands: dict[str, Callable[[str], Any]] = {
        "copies": lambda words: copies(
            *(kind(word) for kind, word in zip((str, float, int), words.split(), strict=True))
        ),
        "fill": lambda left: beside.fill(int(left)),
        "empty": lambda _: beside.empty(),
        "train": lambda steps: training.train(int(steps)),
        "rate": lambda gib: rate(float(gib)),
        "memory": lambda _: memory(),
    }
    if paging:
        commands |= {
            "out": lambda _: moved(paging.out()),
            "back": lambda patience: moved(paging.back(int(patience or 0))),
            "spill": lambda path: moved(paging.spill(Path(path))),
        }
    print(json.dumps({"pid": os.getpid(), **memory()}), flush=True)
    for line in sys.stdin:
        command, _, argument = line.strip().partition(" ")
        if command == "end":
            return
        try:
            answer = commands[command](argument)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
