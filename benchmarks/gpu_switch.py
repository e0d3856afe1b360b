"""One rank off the GPU, another on: by pages, against the driver's checkpoint of the same process in the same run.

    python -m benchmarks.gpu_switch [--parts rate,switch,...] [--out FILE.json]

Needs a CUDA device. Each part has a time limit of its own, and what it found stays when another part fails.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.checkpoint import Checkpoint
from prism.gpu.cuda.residency_abi import SLOT, library_path

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "benchmarks" / "programs" / "gpu_switch_rank.py"
JOBS = ROOT / "tests" / "jobs"
GIB = 1 << 30
POOL = 16 * GIB
PATIENCE_MS = 20_000
AT_ONCE = 4
"""Processes that make their contexts at one time, as ranks do that begin in so many slots."""
Found = dict[str, Any]


class Rank:
    """A training process that is told what to do; with `paged`, its memory can be moved."""

    def __init__(self, folder: Path, paged: bool, layers: int = 8) -> None:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}", "LAYERS": str(layers)}
        if paged:
            environment |= {"LD_PRELOAD": str(library_path()), "POOL": str(folder / "pool"), "SLOTS": str(POOL // SLOT)}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([sys.executable, PROGRAM], stdin=pipe, stdout=pipe, text=True, env=environment)
        self.born = self.answer()
        self.pid = self._process.pid

    def answer(self) -> Found:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = json.loads(line) if line else {"error": f"the process ended: {self._process.wait()}"}
        if "error" in found:
            raise RuntimeError(found["error"])
        return dict(found)

    def tell(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()

    def do(self, command: str) -> Found:
        self.tell(command)
        return self.answer()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def ranks(folder: Path, *paged: bool) -> Iterator[list[Rank]]:
    """Training processes, after two steps each."""
    started: list[Rank] = []
    try:
        for one in paged:
            started.append(Rank(folder, one))
            started[-1].do("train 2")
        yield started
    finally:
        for rank in started:
            rank.end()


def seconds(body: Callable[[], Any]) -> float:
    start = time.perf_counter()
    body()
    return time.perf_counter() - start


def rate(folder: Path) -> Found:
    """What PCIe gives to plain copies of pinned memory, in GB/s."""
    with ranks(folder, False) as (rank,):
        return rank.do("rate 4")


def switch(folder: Path) -> Found:
    """Two processes take turns on the device: serially, and one out while the other comes in."""
    with ranks(folder, True, True) as (one, other):
        size = one.do("out")["bytes"]
        first = other.do("out")  # pins the pool
        serial = []
        for _ in range(3):
            one.do("back")
            serial.append({"out": one.do("out")["ns"] / 1e9, "back": one.do("back")["ns"] / 1e9})
            one.do("out")
        one.do("back")
        duplex = []
        for turn in range(6):
            leaving, coming = (one, other) if turn % 2 == 0 else (other, one)

            def both(leaving: Rank = leaving, coming: Rank = coming) -> None:
                leaving.tell("out")
                coming.tell(f"back {PATIENCE_MS}")
                leaving.answer()
                coming.answer()

            duplex.append(seconds(both))
        losses = [rank.do(f"{command}")["losses"] for rank, command in ((one, "train 3"),)]
        other.do("back")
        losses.append(other.do("train 3")["losses"])
    out, back = (statistics.median(turn[way] for turn in serial) for way in ("out", "back"))
    both_ways = statistics.median(duplex)
    return {
        "bytes": size, "first_out_s": first["ns"] / 1e9, "out_s": out, "back_s": back, "serial_s": out + back,
        "duplex_s": both_ways, "gb_per_s": 2 * size / both_ways / 1e9, "losses": losses, "duplex_all": duplex,
    }  # fmt: skip


def checkpoint(folder: Path) -> Found:
    """The driver's checkpoint of the same process, as it is, and once its pages are out."""
    driver = Checkpoint()
    found: Found = {}
    with ranks(folder, False, True) as (plain, paged):
        free = plain.do("memory")["free"]
        found["out_s"] = [seconds(lambda: driver.save(plain.pid))]
        found["freed"] = paged.do("memory")["free"] - free
        found["back_s"] = [seconds(lambda: driver.restore(plain.pid))]
        found["losses"] = plain.do("train 3")["losses"]
        found["out_s"].append(seconds(lambda: driver.save(plain.pid)))
        found["back_s"].append(seconds(lambda: driver.restore(plain.pid)))
        paged.do("out")
        found["after_pages_out_s"] = seconds(lambda: driver.save(paged.pid))
        found["after_pages_back_s"] = seconds(lambda: driver.restore(paged.pid))
        paged.do("back")
        found["paged_losses"] = paged.do("train 3")["losses"]
    return found


def spill(folder: Path) -> Found:
    """A host copy to disk and back: contents are compared by the losses that follow."""
    with ranks(folder, True, True) as (one, other):
        size = one.do("out")["bytes"]
        with tempfile.TemporaryDirectory(dir=ROOT) as disk:
            written = one.do(f"spill {disk}/copy")
            back = one.do("back")
        same = one.do("train 3")["losses"] == other.do("train 3")["losses"]
    return {"bytes": size, "spill_s": written["ns"] / 1e9, "back_s": back["ns"] / 1e9, "losses_equal": same}


def reserved(folder: Path) -> Found:
    """What torch allocates and reserves, with the library preloaded and without: one process, and real NCCL jobs."""
    found: Found = {}
    for paged in (False, True):
        with ranks(folder, paged) as (rank,):
            steps = rank.do("train 4")
            found[f"single paged={paged}"] = {**rank.do("memory"), **steps}
    for job in ("job_ddp.py", "job_fsdp2.py", "job_moe.py"):
        for paged in (False, True):
            found[f"{job} paged={paged}"] = real(JOBS / job, 2, 3, paged)
    return found


def real(job: Path, world: int, steps: int, paged: bool) -> list[Found]:
    """Peaks of a job under real NCCL, all ranks on this device; NCCL lets them where each says that it is a host."""
    preload = f"LD_PRELOAD={library_path()} " if paged else ""
    shell = f"{preload}NCCL_HOSTID=h$LOCAL_RANK exec {sys.executable} {job} {steps}"
    environment = {**os.environ, "NCCL_IB_DISABLE": "1", "NCCL_SOCKET_IFNAME": "lo"}
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(world), "--no-python"]
    done = subprocess.run(
        [*command, "sh", "-c", shell], env=environment, capture_output=True, text=True, timeout=90, check=False
    )
    lines = [json.loads(line) for line in re.findall(r"REF ({.*})", done.stdout)]
    if not lines:
        return [{"error": done.stderr[-2000:]}]
    keys = ("rank", "max_allocated", "max_reserved", "loss")
    return sorted(({key: line[key] for key in keys} for line in lines), key=lambda line: int(line["rank"]))


FORKED = """
import os, sys, time, torch
count, at_once, begun = int(sys.argv[1]), int(sys.argv[2]), []
def live(number, write):
    try:
        x = torch.ones(1 << 20, device="cuda").mul_(number % 100); torch.cuda.synchronize()
        os.write(write, b"right" if int(x[0]) == number % 100 else b"wrong"); sys.stdin.read()
    except BaseException as error:
        os.write(write, repr(error).encode()[:300])
    os._exit(0)
start, told = time.perf_counter(), []
for number in range(count):
    read, write = os.pipe()
    if os.fork() == 0:
        live(number, write)
    os.close(write); begun.append(read)
    if len(begun) - len(told) >= at_once:
        told.append(os.read(begun[len(told)], 300))
told += [os.read(read, 300) for read in begun[len(told):]]
errors = sorted({one.decode() for one in told} - {"right"})
import json
print(json.dumps({"right": told.count(b"right"), "s": time.perf_counter() - start, "errors": errors}), flush=True)
sys.stdin.read()
"""


def contexts(folder: Path) -> Found:
    """Many small processes with a context each: seconds and memory of one."""
    found: Found = {}
    for count in (1, 128):
        free = device_free()
        environment = {**os.environ, "LD_PRELOAD": str(library_path())}
        command = [sys.executable, "-c", FORKED, str(count), str(AT_ONCE)]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        each = (free - device_free()) / count
        found[str(count)] = {**told, "s_each": told["s"] / count, "bytes_each": each}
        process.communicate()
    return found


def device_free() -> int:
    """Bytes that the device has free, asked without a context."""
    ask = ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    return int(subprocess.run(ask, capture_output=True, text=True, check=True).stdout.split()[0]) << 20


PARTS: dict[str, tuple[Callable[[Path], Found], int]] = {
    "rate": (rate, 40), "switch": (switch, 60), "checkpoint": (checkpoint, 70), "spill": (spill, 60),
    "reserved": (reserved, 200), "contexts": (contexts, 90),
}  # fmt: skip


def run_part(name: str) -> Found:
    """A part in a process of its own, so that its limit ends all that it started."""
    _, limit = PARTS[name]
    command = ["timeout", "-k", "2", str(limit), sys.executable, "-m", "benchmarks.gpu_switch", "--only", name]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    lines = done.stdout.strip().splitlines()
    return json.loads(lines[-1]) if done.returncode == 0 and lines else {"error": (done.stderr or "timed out")[-3000:]}


def table(found: dict[str, Found]) -> str:
    """The figures that count, against what they are measured by."""
    rows = []
    pages, driver, wire = (found.get(part, {}) for part in ("switch", "checkpoint", "rate"))
    if "duplex_s" in pages:
        rows.append(
            f"{pages['bytes'] / GIB:.2f} GiB by pages: out {pages['out_s']:.3f} s, back {pages['back_s']:.3f} s"
        )
        rows.append(f"one out while another comes in: {pages['duplex_s']:.3f} s, {pages['gb_per_s']:.1f} GB/s")
    if "duplex_s" in pages and "both" in wire:
        share = pages["gb_per_s"] / wire["both"]
        rows.append(f"PCIe both ways at once: {wire['both']:.1f} GB/s; the switch has {share:.1%} of it")
    if "duplex_s" in pages and "out_s" in driver:
        out, back = min(driver["out_s"]), min(driver["back_s"])
        rows.append(
            f"driver's checkpoint: out {out:.2f} s, back {back:.2f} s; {(out + back) / pages['duplex_s']:.1f} x"
        )
    return "\n".join(rows)


def main() -> None:
    """Run the parts, print the table, write the JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_switch")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", choices=PARTS)
    options = parser.parse_args()
    if options.only:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            print(json.dumps(PARTS[options.only][0](Path(folder))))
        return
    found: dict[str, Found] = {}
    for name in options.parts.split(","):
        start = time.perf_counter()
        found[name] = run_part(name)
        print(f"{name} ({time.perf_counter() - start:.0f} s): {json.dumps(found[name])}", flush=True)
        if options.out:
            options.out.write_text(json.dumps(found, indent=2))
    print(table(found))


if __name__ == "__main__":
    main()
