"""Spills what it holds, in all ways that could go wrong; prints what it found, as JSON: spilled_program.py FOLDER."""

import ctypes
import importlib.util
import json
import os
import sys
import threading
import time
from typing import Any

MIB = 1 << 20
spec = importlib.util.find_spec("prism.gpu._spill")
assert spec is not None
assert spec.origin is not None
library = ctypes.CDLL(spec.origin)
library.prism_private_bytes.restype = ctypes.c_int64
left = ctypes.c_int64()
found: dict[str, Any] = {"opened": library.prism_spill_open(sys.argv[1].encode())}


def spill() -> int:
    return int(library.prism_spill(ctypes.byref(left)))


def holds(first: int = 0, last: int = 0) -> bool:
    """Whether the pages between hold what was written to them."""
    return all(large[at] == at // 4096 % 251 for at in range(first * 4096, len(large) - last * 4096, 4096))


large = bytearray(b"".join(bytes([page % 251]) * 4096 for page in range(8 * MIB // 4096)))
small = [bytes([number % 256]) * 100 for number in range(20_000)]
before = library.prism_private_bytes()
found["status"] = spill()
found["spilled"] = before - left.value
found["intact"] = holds() and all(text[0] == number % 256 for number, text in enumerate(small))

large[0], large[-4096] = 7, 8  # pages that are changed are written again, in their places
found["again"] = spill()
found["changed"] = (large[0], large[-4096], holds(1, 1))

found["growth"], found["grown"] = [], []
for step in (1, -1):  # memory grows into where its neighbour was, above it or below
    grown = [bytearray(bytes([number]) * MIB) for number in range(1, 9)]
    found["growth"].append(spill())
    for data in grown[::step]:  # where the allocator enlarges memory, it maps more of the file
        data.extend(bytes([data[0]]) * (3 * MIB))
    found["growth"] += [spill(), spill()]
    for data in grown:
        data[::4096] = bytes([data[0]]) * (len(data) // 4096)
    found["growth"].append(spill())
    found["grown"] += [data.count(number) for number, data in enumerate(grown, start=1)]

stop, counts, failures = threading.Event(), [0] * 3, list[str]()


def compute(number: int) -> None:
    data = bytearray(MIB)
    while not stop.is_set():
        counts[number] += 1
        data[:] = bytes([counts[number] % 256]) * MIB
        if data.count(counts[number] % 256) != MIB:
            failures.append(f"thread {number} found other bytes than it had written")
        stop.wait(0.0005)


threads = [threading.Thread(target=compute, args=(number,)) for number in range(3)]
for thread in threads:
    thread.start()
found["while threads run"] = [spill() for _ in range(10)]
while min(counts) < 3:
    time.sleep(0.001)
stop.set()
for thread in threads:
    thread.join()
found["failures"] = failures

read, write = os.pipe()
child = os.fork()
if child == 0:  # what the parent spills from here on must not show in what the child sees
    os.read(read, 1)
    os._exit(0 if large[0] == 7 and spill() == 9 else 1)
large[0] = 9
found["after a fork"] = spill()
os.write(write, b"x")
found["child"] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
found["parent"] = large[0]
print(json.dumps(found))
