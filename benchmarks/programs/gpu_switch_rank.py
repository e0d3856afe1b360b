"""A training process of 6 GiB that does what it is told, a line a command, and answers each with a line of JSON.

train N | out | back PATIENCE_MS | spill FILE | rate GIB | copies KIND out/back GIB N | calls GIB S |
fill BYTES | empty | end
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.programs.host_copies import copies
from prism.gpu.cuda.residency_abi import SLOT, Moved, Paging

WIDTH, HEADS, LAYERS, BATCH, LENGTH = 2048, 16, 8, 8, 512
EVERY_S = 0.002
"""How often a move is looked at."""


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


class Mover:
    """Moves this process's memory, and tells what calls of the driver that took: by kind, how many and ms."""

    def __init__(self, library: Path) -> None:
        self._paging = Paging(library)
        self._paging.open(Path(os.environ["POOL"]), int(os.environ["SLOTS"]), os.getpid())
        self._cuda = ctypes.CDLL(str(library))

    def out(self, _: str) -> dict[str, Any]:
        return self._counted(self._paging.out)

    def back(self, patience_ms: str) -> dict[str, Any]:
        with Watch(self._paging) as watch:
            told = self._counted(lambda: self._paging.back(int(patience_ms or 0)))
        return {**told, "seen": watch.seen}

    def spill(self, path: str) -> dict[str, Any]:
        return self._counted(lambda: self._paging.spill(Path(path)))

    def calls(self, words: str) -> dict[str, Any]:
        """Take so much memory and give it back, again and again for so long; nothing is copied."""
        gib, seconds = map(float, words.split())
        blocks = [ctypes.c_void_p() for _ in range(int(gib * (1 << 30)) // SLOT)]

        def take_and_give() -> None:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                codes = [self._cuda.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(SLOT)) for block in blocks]
                codes += [self._cuda.cudaFree(block) for block in blocks]
                assert not any(codes), f"cudaMalloc or cudaFree: {set(codes)}"

        return self._counted(take_and_give)

    def _counted(self, move: Callable[[], Moved | None]) -> dict[str, Any]:
        before, begin = self._paging.calls(), time.monotonic()
        what, end = move(), time.monotonic()
        told = {name: getattr(what, name) for name, _ in Moved._fields_} if what is not None else {}
        return {**told, "begin": begin, "end": end, "calls": since(before, self._paging)}


def since(before: dict[str, tuple[int, int]], paging: Paging) -> dict[str, tuple[int, float]]:
    """By kind, how many calls there were since then, and ms."""
    return {
        kind: (count - before[kind][0], (ns - before[kind][1]) / 1e6)
        for kind, (count, ns) in paging.calls().items()
        if count > before[kind][0]
    }


class Watch(threading.Thread):
    """How far a move is, every few ms: the time, handles mapped by then, and ms that opening them took."""

    def __init__(self, paging: Paging) -> None:
        super().__init__(daemon=True)
        self.seen: list[tuple[float, int, float]] = []
        self._paging, self._before = paging, paging.calls()
        self._over = threading.Event()

    def __enter__(self) -> Watch:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        while not self._over.wait(EVERY_S):
            calls = since(self._before, self._paging)
            self.seen.append((time.monotonic(), calls.get("map", (0, 0.0))[0], calls.get("open", (0, 0.0))[1]))


def main() -> None:
    layers = int(os.environ.get("LAYERS", LAYERS))
    training = Training(layers)
    preloaded = os.environ.get("LD_PRELOAD")
    beside = Beside()
    commands: dict[str, Callable[[str], Any]] = {
        "copies": lambda words: copies(
            *(kind(word) for kind, word in zip((str, str, float, int), words.split(), strict=True))
        ),
        "fill": lambda left: beside.fill(int(left)),
        "empty": lambda _: beside.empty(),
        "train": lambda steps: training.train(int(steps)),
        "rate": lambda gib: rate(float(gib)),
        "memory": lambda _: memory(),
    }
    if preloaded:
        mover = Mover(Path(preloaded))
        commands |= {"out": mover.out, "back": mover.back, "spill": mover.spill, "calls": mover.calls}
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
