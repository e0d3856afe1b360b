from pathlib import Path

from prism.core.emulation.lane_steps import record_of_lane
from prism.core.record import MarkStep, PostStep, RankRecord, WaitStep
from tests.running import capture, scenario

JOBS = Path(__file__).parent.parent / "jobs"


def told(record: RankRecord) -> list[tuple[object, ...]]:
    """The steps as far as a lane can tell them."""
    posts: dict[int, int] = {}  # handle -> which post it was
    steps: list[tuple[object, ...]] = []
    for step in record.steps:
        match step:
            case PostStep(handle=handle, call=call):
                posts[handle] = len(posts)
                steps.append((call.kind, call.dtype, call.reduce, call.root, call.peer, call.sends))
            case WaitStep(handles=handles):
                steps.append(tuple(posts[handle] for handle in handles))
            case MarkStep():
                steps.append(("mark",))
    return steps


def test_a_lane_tells_what_the_record_holds(tmp_path: Path) -> None:
    for kind in ("ddp", "pp", "moe"):
        out = tmp_path / kind
        run = capture(scenario(JOBS / f"job_{kind}.py", ("2",), 4), out)
        assert run.graph is not None
        for rank in range(4):
            record = RankRecord.decode((out / "record" / f"{rank}.msgpack").read_bytes())
            assert told(record_of_lane(run.graph, rank)) == told(record)
