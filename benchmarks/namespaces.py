"""Hosts on one machine: network namespaces with an address each, own shared memory, and an own output folder.

Needs root, `ip` and `unshare`. Packets pass through a router in this process, which delays and drops them where it is
told to: every host has a TUN device whose other end is here, so the kernel's own TCP sees the loss.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import random
import select
import shutil
import struct
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
MTU = 1500
LONGEST_PACKET = 1 << 16


def possible() -> str:
    """Why hosts cannot be made here, "" if they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not (shutil.which("ip") and shutil.which("unshare")):
        return "network namespaces need ip (iproute2) and unshare"
    if not os.path.exists("/dev/net/tun"):
        return "hosts are joined by TUN devices, and there is no /dev/net/tun"
    made = subprocess.run(["ip", "netns", "add", f"prism-try-{os.getpid()}"], capture_output=True, text=True)
    if made.returncode:
        return f"network namespaces are not allowed here: {made.stderr.strip()}"
    _ip("netns", "del", f"prism-try-{os.getpid()}")
    return ""


class Hosts:
    """`count` hosts, 10.77.0.1 and so on; every packet takes `delay_s`, and one in 1 / `loss` never arrives."""

    def __init__(self, count: int, delay_s: float = 0.0, loss: float = 0.0, seed: int = 1) -> None:
        self.addresses = [f"10.77.0.{number + 1}" for number in range(count)]
        self.bytes = 0  # that went from one host to another
        self.packets = self.dropped = 0
        self._names = [f"prism-{os.getpid()}-{number}" for number in range(count)]
        self._delay, self._loss, self._random = delay_s, loss, random.Random(seed)
        self._tuns: list[int] = []
        self._stop_read, self._stop = os.pipe()
        self._router = threading.Thread(target=self._route, name="router", daemon=True)

    def __enter__(self) -> Self:
        for name, address in zip(self._names, self.addresses, strict=True):
            _ip("netns", "add", name)
            self._tuns.append(_tun_inside(name))
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", "tun0")
            _ip("-n", name, "link", "set", "tun0", "mtu", str(MTU), "up")
        self._router.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.write(self._stop, b"x")
        self._router.join()
        for descriptor in self._tuns:
            os.close(descriptor)
        for name in self._names:
            _ip("netns", "del", name)

    def start(
        self, host: int, command: Sequence[str], own: Path | None = None, **options: Any
    ) -> subprocess.Popen[Any]:
        """Start a command on a host; what lies in the folder `own` is its alone, and empty at first."""
        mounts = ["mount -t tmpfs -o size=4g none /dev/shm"]
        if own is not None:
            own.mkdir(parents=True, exist_ok=True)
            mounts.append(f"mount -t tmpfs none {own}")
        inside = ["unshare", "--mount", "sh", "-c", " && ".join([*mounts, 'exec "$@"']), "sh", *command]
        return subprocess.Popen(["ip", "netns", "exec", self._names[host], *inside], **options)

    def _route(self) -> None:
        """Carry packets until told to stop."""
        places = {bytes(int(part) for part in address.split(".")): tun for address, tun in self._by_address()}
        waiting: list[tuple[float, int, int, bytes]] = []
        number = 0
        while True:
            pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
            ready, _, _ = select.select([*self._tuns, self._stop_read], [], [], pause)
            if self._stop_read in ready:
                return
            now = time.monotonic()
            for tun in ready:
                packet = os.read(tun, LONGEST_PACKET)
                target = places.get(packet[16:20])
                if packet[0] >> 4 != 4 or target is None:
                    continue
                self.packets += 1
                self.bytes += len(packet)
                if self._random.random() < self._loss:
                    self.dropped += 1
                    continue
                number += 1
                heapq.heappush(waiting, (now + self._delay, number, target, packet))
            while waiting and waiting[0][0] <= time.monotonic():
                _, _, target, packet = heapq.heappop(waiting)
                os.write(target, packet)

    def _by_address(self) -> Sequence[tuple[str, int]]:
        return list(zip(self.addresses, self._tuns, strict=True))


def _tun_inside(name: str) -> int:
    """A TUN device in a namespace; its descriptor works here."""
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{name}", os.O_RDONLY)
    try:
        if libc.setns(there, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"namespace {name} cannot be entered")
        try:
            descriptor = os.open("/dev/net/tun", os.O_RDWR)
            fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH", b"tun0", IFF_TUN | IFF_NO_PI))
        finally:
            libc.setns(home, CLONE_NEWNET)
    finally:
        os.close(home)
        os.close(there)
    return descriptor


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
