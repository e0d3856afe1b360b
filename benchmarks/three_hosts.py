"""A scenario on three hosts against one: the same bytes of the graph, the same output, or losses, of every rank.

`python -m benchmarks.three_hosts SCENARIO.yaml [--delay 0.005] [--loss 0.01] [--hosts 3]`, as root. The hosts are those
of benchmarks.namespaces: own network, own shared memory, and output folders that they do not share.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.namespaces import Hosts, possible
from prism.core.record import RankRecord

PORT = 5711
ARGUMENTS = ["-m", "prism.coordinator"]


def run(scenario: Path, folder: Path, count: int, delay_s: float, loss: float) -> Hosts:
    """Capture the scenario once on one host and once on `count`; raises AssertionError where they differ."""
    one, many, token = folder / "one", folder / "many", folder / "private" / "token"
    command = [sys.executable, *ARGUMENTS, str(scenario), "--stages", "capture", "-q", "--out"]
    subprocess.run([*command, str(one)], check=True, stdout=subprocess.DEVNULL)
    token.parent.mkdir(mode=0o700)
    with Hosts(count, delay_s, loss) as hosts:
        address = f"tcp://{hosts.addresses[0]}:{PORT}"
        keys = {"kind": "external", "workers": count, "listen": address, "token_file": token}
        settings = [part for key, value in keys.items() for part in ("--set", f"launcher.{key}={value}")]
        coordinator = hosts.start(0, [*command, str(many), *settings], stdout=subprocess.DEVNULL)
        worker = [sys.executable, "-m", "prism.gpu.worker", "--coordinator", address, "--token-file", str(token)]
        workers = [
            hosts.start(host, [*worker, "--name", f"host-{host}"], own=many if host else None) for host in range(count)
        ]
        assert coordinator.wait() == 0
        assert [one.wait() for one in workers] == [0] * count
    compare(one, many)
    return hosts


def compare(one: Path, many: Path) -> None:
    """The graph, byte for byte, and what every rank did, got and printed."""
    assert (one / "graph.prism").read_bytes() == (many / "graph.prism").read_bytes()
    for log in sorted((one / "ranks").glob("*.log")):
        assert printed(many / "ranks" / log.name) == printed(log), log.name
    for path in sorted((one / "record").iterdir()):
        ranks = [RankRecord.decode((out / "record" / path.name).read_bytes()) for out in (one, many)]
        assert len(ranks[0].steps) == len(ranks[1].steps)


def printed(log: Path) -> object:
    """What a rank has printed; of the tests' jobs, which print times too, the losses."""
    text = log.read_text()
    return re.findall(r'"loss": \[[^]]*\]', text) or text


def main() -> None:
    """Print what crossed, and how long it took."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.three_hosts", description=__doc__.partition("\n")[0])
    parser.add_argument("scenario", type=Path)
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--delay", type=float, default=0.0, help="of every packet, in seconds")
    parser.add_argument("--loss", type=float, default=0.0, help="the share of packets that never arrive")
    options = parser.parse_args()
    if reason := possible():
        sys.exit(reason)
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        hosts = run(options.scenario.absolute(), Path(folder), options.hosts, options.delay, options.loss)
        took = time.monotonic() - start
    print(
        f"{options.scenario.name}: same graph, and same output of all ranks, on one host and on {options.hosts}; "
        f"both took {took:.0f} s; "
        f"{hosts.bytes:,} bytes in {hosts.packets:,} packets crossed, {hosts.dropped:,} were lost"
    )


if __name__ == "__main__":
    main()
