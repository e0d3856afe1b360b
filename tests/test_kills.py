"""Processes killed or stopped, and messages lost, at random moments: a run ends right, or with a true reason, and
leaves nothing behind.

`pytest tests/test_kills.py --kills 500` is the long form.
"""

from __future__ import annotations

import asyncio
import signal

import pytest

from prism.crew import attendance
from prism.net.zeromq import ZmqListener
from tests.kills import Kill, kills
from tests.kills_bench import Bench, Outcome
from tests.net.faulty import FaultyListener

LANES = 5
"""Kills at a time: most of them wait for what has been stopped to be missed."""
IN_TIME_S = 10.0
"""When a run has to be over after a kill, on a machine with a CPU for every process that wants one. On a busier one
what has to be done after it takes longer in proportion: the limit is multiplied by the load for each CPU."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kill" in metafunc.fixturenames:
        metafunc.parametrize("kill", kills(metafunc.config.getoption("--kills")), ids=str)


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[Kill, Outcome]:
    """What all kills came to."""
    bench = Bench(tmp_path_factory.mktemp("kills"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attendance, "ZmqListener", lambda *given: FaultyListener(ZmqListener(*given)))
        asyncio.run(bench.run(kills(request.config.getoption("--kills")), LANES))
    return bench.outcomes


def test_a_kill(kill: Kill, outcomes: dict[Kill, Outcome]) -> None:
    found = outcomes[kill]
    print(f"hit {found.hit} after {found.seconds:.1f} s, load {found.load:.1f}: {found.reason or 'went on'}")
    assert not found.wrong, found.wrong
    assert found.reason.startswith(told(kill, found.hit)) or not found.reason
    assert not found.reason or found.seconds < IN_TIME_S * found.load


def test_most_kills_hit_somebody(outcomes: dict[Kill, Outcome]) -> None:
    assert sum(1 for found in outcomes.values() if found.hit) >= 0.9 * len(outcomes)


def told(kill: Kill, hit: str) -> str:
    """How the reason begins that is true, where `hit` was killed; one that no reason has, where nobody was."""
    match kill.victim, kill.blow:
        case _ if not hit:
            return "no reason"
        case "rank", signal.SIGKILL:
            return f"rank_failed: {hit} was killed by SIGKILL"
        case "assistant", signal.SIGKILL:
            return f"worker-0: {hit} was killed by SIGKILL"
        case "worker", signal.SIGKILL:
            return "worker-0 was lost (-9)"
        case "worker", signal.SIGSTOP:
            return "worker-0 was lost: it has "  # said nothing for 8 s, or before its first word: been stopped
        case "fork server", signal.SIGKILL:
            return "worker-0: the fork server of the ranks has ended"
        case "fork server", signal.SIGSTOP:
            return "worker-0: the fork server of the ranks has been stopped by a signal, and does not go on"
        case _, "delay":
            return "no reason"
        case "word of the worker", _:
            return "worker-0 was lost: what it says does not arrive as it was sent: "
        case "word to the worker", _:
            return "worker-0: what the coordinator says does not arrive as it is sent: "
        case _:
            return f"worker-0: {hit} has been stopped by a signal, and does not go on"
