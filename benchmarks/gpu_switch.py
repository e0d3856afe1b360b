"""One rank off the GPU, another on: by pages, against the driver's checkpoint of the same process in the same run.

    python -m benchmarks.gpu_switch [--parts rate,switch,...] [--libraries NAME=FILE,...] [--out FILE.json]

Needs a CUDA device. Each part has a time limit of its own, and what it found stays when another part fails. Part
`switch` is made with each of the libraries, builds of ext/cuda that differ, in turns on one GPU; left out: as it is
built. It says in which calls of the driver both processes spent the time of a switch; `small_pages` does the same with
a host pool that is not in huge pages; `pieces` makes these calls, and copies, by themselves.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.checkpoint import Checkpoint
from benchmarks.contexts import contexts
from benchmarks.switch_pieces import pieces
from benchmarks.switch_pieces import rate as two_ways
from benchmarks.switch_table import table
from benchmarks.training_ranks import ROOT, Found, Rank, ranks
from prism.gpu.cuda.pool_file import NAME, PoolFile
from prism.gpu.cuda.residency_abi import library_path

JOBS = ROOT / "tests" / "jobs"
LEFT = 64 << 20
"""Bytes that a switch on a full device finds free."""
PATIENCE_MS = 20_000


def built() -> Path:
    """The library as it is built here."""
    library = library_path()
    assert library is not None, "ext/cuda is not built: make ext"
    return library


def libraries() -> dict[str, Path]:
    """The builds to compare, by name, from the variable LIBRARIES; else the one that is built here."""
    given = os.environ.get("LIBRARIES")
    if not given:
        return {"built": built()}
    return {name: Path(file) for name, _, file in (item.partition("=") for item in given.split(","))}


def seconds(body: Callable[[], Any]) -> float:
    start = time.perf_counter()
    body()
    return time.perf_counter() - start


def rate(folder: Path) -> Found:
    """What PCIe gives to plain copies of pinned memory, in GB/s: of one process, and of two, one in each direction."""
    with ranks(folder, None, None, layers=1) as (one, other):
        found = one.do("rate 4")
        both = two_ways(one, other, "whole", 4)
    return {**found, "two": both["gb_per_s"], "two_all": both["all"]}


def switch(folder: Path) -> Found:
    """The host pool as ranks have it: in huge pages, where this process may mount."""
    with contextlib.closing(PoolFile(folder / NAME)) as file:
        return {**small_pages(folder), "huge": file.huge}


def small_pages(folder: Path) -> Found:
    """With each library two processes take turns on the device: serially, and one out while the other comes in."""
    builds = libraries()
    with ranks(folder, *(library for library in builds.values() for _ in range(2))) as started:
        pairs = {name: (started[2 * number], started[2 * number + 1]) for number, name in enumerate(builds)}
        with ranks(folder, None, layers=1) as (beside,):
            found = {name: turns(*pair, beside) for name, pair in pairs.items()}
    best = min(found, key=lambda name: float(found[name].get("duplex_s", 1e9)))
    return {**found[best], "best": best, "builds": found}


def turns(one: Rank, other: Rank, beside: Rank) -> Found:
    """What one pair does."""
    try:
        size = one.do("out")["bytes"]
        first = other.do("out")  # pins the pool
        serial = []
        for _ in range(3):
            one.do("back")
            serial.append({"out": one.do("out")["ns"] / 1e9, "back": one.do("back")["ns"] / 1e9})
            one.do("out")
        one.do("back")
        duplex = [both_ways(one, other, turn) for turn in range(6)]
        beside.do(f"fill {LEFT}")  # the one that comes gets what the other gives
        full = [both_ways(one, other, turn) for turn in range(6)]
        beside.do("empty")
        losses = [one.do("train 3")["losses"]]
        other.do("back")
        losses.append(other.do("train 3")["losses"])
    except RuntimeError as error:
        beside.do("empty")
        return {"error": str(error)}
    out, back = (statistics.median(turn[way] for turn in serial) for way in ("out", "back"))
    took, crowded = ([one["s"] for one in switches] for switches in (duplex, full))
    middle = statistics.median(took)
    return {
        "bytes": size, "first_out_s": first["ns"] / 1e9, "out_s": out, "back_s": back, "serial_s": out + back,
        "duplex_s": middle, "gb_per_s": 2 * size / middle / 1e9, "full_s": statistics.median(crowded),
        "losses": losses, "duplex_all": took, "full_all": crowded, "duplex": typical(duplex), "full": typical(full),
    }  # fmt: skip


def both_ways(one: Rank, other: Rank, turn: int) -> Found:
    """A switch: one goes out while the other comes back; which one it is changes from turn to turn."""
    leaving, coming = (one, other) if turn % 2 == 0 else (other, one)
    leaving.tell("out")
    coming.tell(f"back {PATIENCE_MS}")
    out, back = leaving.answer(), coming.answer()
    seen = [[0.0, 0, 0.0], *back.pop("seen")]
    _, handles, opening = max(look for look in seen if look[0] <= out["end"])
    back |= {"handles_when_left": handles, "opening_when_left_ms": opening}
    return {"s": max(out["end"], back["end"]) - min(out["begin"], back["begin"]), "out": out, "back": back}


def typical(switches: list[Found]) -> Found:
    """The one that took the median time; of two the longer."""
    return sorted(switches, key=lambda one: float(one["s"]))[len(switches) // 2]


def checkpoint(folder: Path) -> Found:
    """The driver's checkpoint of the same process, as it is, and once its pages are out."""
    driver = Checkpoint()
    found: Found = {}
    with ranks(folder, None, built()) as (plain, paged):
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
    with ranks(folder, built(), built()) as (one, other):
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
        with ranks(folder, built() if paged else None) as (rank,):
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


PARTS: dict[str, tuple[Callable[[Path], Found], int]] = {
    "rate": (rate, 40), "pieces": (lambda folder: pieces(folder, built()), 80), "switch": (switch, 120),
    "small_pages": (small_pages, 120),
    "checkpoint": (checkpoint, 70), "spill": (spill, 60),
    "reserved": (reserved, 200), "contexts": (contexts, 90),
}  # fmt: skip


def run_part(name: str) -> Found:
    """A part in a process of its own, so that its limit ends all that it started."""
    _, limit = PARTS[name]
    command = ["timeout", "-k", "2", str(limit), sys.executable, "-m", "benchmarks.gpu_switch", "--only", name]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    lines = done.stdout.strip().splitlines()
    return json.loads(lines[-1]) if done.returncode == 0 and lines else {"error": (done.stderr or "timed out")[-3000:]}


def main() -> None:
    """Run the parts, print the table, write the JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_switch")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--libraries", help="NAME=FILE,...")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", choices=PARTS)
    options = parser.parse_args()
    if options.only:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            print(json.dumps(PARTS[options.only][0](Path(folder))))
        return
    os.environ["LIBRARIES"] = options.libraries or ""
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
