"""What single operations of gloo cost on this machine, as a table for `network: {model: measured, table: FILE}`.

    python -m benchmarks.loopback [--groups 2,4,8] [--callers slept|awake] [--out FILE]

The cost of an operation is what the model of PRISM means by it: from the moment at which its last member calls gloo to
the moment at which the waits are over. It holds what gloo does on the thread of the last member, the way of the bytes,
and the waking of the waiters. It does not hold torch's Python in front of gloo, which PRISM times as compute.

On loopback an operation costs what waking threads costs, and cores and threads that have slept for milliseconds take
twice as long to wake as ones that are busy. So there are two tables. `slept`: one rank has just woken from a sleep of
some milliseconds, all others wait, and nothing else runs. `awake`: all ranks have computed for a fraction of a
millisecond since their last operation. A job wants the table of what it does between its operations.

Waits for one operation end at different times; the cost is their mean, as nccl-tests has it. A rank whose wait was over
before the last post, such as the root of a broadcast, is left out. Of a message it is the receiver who counts; its
sender comes last as often as its receiver does, and the table has a row of each.

Beside the cost are printed `slowest`, the wait that ends last, and `posting`, how long gloo kept the thread that posted
last. Where that thread goes on to compute, this is time that no part of the model has.
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from prism.core.timeline.measured import COLUMNS
from tests.gloo_reference import run_gloo

PROGRAM = Path(__file__).parent / "programs" / "loopback.py"
REPETITIONS = 32
TIMEOUT_S = 300.0

Callers = Literal["slept", "awake"]
"""What ranks did before they called."""


class Call(NamedTuple):
    """One operation on one rank: gloo was called, it returned, the wait was over; in ns of one clock."""

    collective: str
    nbytes: int
    called: int
    returned: int
    done: int


class Cost(NamedTuple):
    """What an operation costs: one row of the table."""

    collective: str
    members: int
    nbytes: int
    last: str  # of a message, who posts last: sender or receiver
    cost_us: float
    slowest_us: float
    posting_us: float


def measure(members: int, callers: Callers = "slept") -> list[Cost]:
    """The costs of all operations on a group of so many ranks: medians of the repetitions."""
    output = run_gloo(PROGRAM, (str(REPETITIONS), callers), members, TIMEOUT_S)
    repeated: dict[tuple[str, int, str], list[tuple[float, float, float]]] = defaultdict(list)
    for operation in zip(*map(_calls, output), strict=True):
        first = operation[0]
        sender_last = operation[0].called > operation[-1].called
        last = ("receiver", "sender")[sender_last] if first.collective == "send_recv" else ""
        repeated[first.collective, first.nbytes, last].append(times_us(operation))
    return [
        Cost(collective, members, nbytes, last, *map(statistics.median, zip(*times, strict=True)))
        for (collective, nbytes, last), times in repeated.items()
    ]


def times_us(operation: Sequence[Call]) -> tuple[float, float, float]:
    """Cost, slowest wait and posting of one operation by its calls on all ranks, in us."""
    last = max(operation, key=lambda call: call.called)
    waiters = operation[1:] if last.collective == "send_recv" else operation
    waits = [(call.done - last.called) / 1000 for call in waiters if call.done > last.called]
    return statistics.mean(waits), max(waits), (last.returned - last.called) / 1000


def table(costs: Iterable[Cost]) -> str:
    """The costs as CSV; all ranks are on one node."""
    rows = (f"{c.collective},{c.members},intra_node,{c.nbytes},{c.cost_us:.1f}" for c in costs)
    return "\n".join([",".join(COLUMNS), *rows, ""])


def _calls(output: str) -> Iterator[Call]:
    """The OP lines that a rank has printed."""
    for line in output.splitlines():
        match line.split():
            case ["OP", name, *numbers]:
                yield Call(name, *map(int, numbers))


def main() -> None:
    """Print the costs, and write the table if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--groups", default="2,4,8", help="numbers of members, separated by commas")
    parser.add_argument("--callers", choices=get_args(Callers), default="slept", help="what ranks do before they call")
    parser.add_argument("--out", type=Path, help="the file to write the table to")
    options = parser.parse_args()
    costs = []
    print(f"{'collective':<14} {'members':>7} {'bytes':>8} {'last':>8} {'cost':>11} {'slowest':>11} {'posting':>11}")
    for members in map(int, options.groups.split(",")):
        for cost in measure(members, options.callers):
            costs.append(cost)
            shown = f"{cost.collective:<14} {cost.members:7} {cost.nbytes:8} {cost.last:>8}"
            print(f"{shown} {cost.cost_us:8.1f} us {cost.slowest_us:8.1f} us {cost.posting_us:8.1f} us", flush=True)
    if options.out:
        options.out.write_text(table(costs), encoding="utf-8")


if __name__ == "__main__":
    main()
