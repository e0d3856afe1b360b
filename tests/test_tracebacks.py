"""What of a traceback a terminal shows: the message, the program's own frames, and where the rest is."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from prism.command.tracebacks import LONGEST, MOST_FRAMES, MOST_LINES, MOST_TRACEBACKS, shown, tracebacks
from prism.core.diagnosis import Diagnosis, RankState
from prism.folder import Folder

HEADER = "Traceback (most recent call last):"
TORCH = f"{sysconfig.get_paths()['purelib']}/torch/nn/modules/module.py"


def frame(path: str, line: int) -> list[str]:
    return [f'  File "{path}", line {line}, in forward', "    return self.next(x)", "           ^^^^^^^^^^^^"]


def traceback(*frames: list[str], message: str = "ValueError: no") -> str:
    return "\n".join([HEADER, *(line for one in frames for line in one), message, ""])


def failed(*texts: str) -> Diagnosis:
    states = [RankState(rank=rank, state="raised", traceback=text) for rank, text in enumerate(texts)]
    return Diagnosis(kind="oom", summary="ranks raised", ranks=states)


def test_the_message_comes_first_and_frames_of_libraries_are_left_out(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.logs.mkdir()
    folder.log(0, "calibrate").touch()
    inside = [frame(TORCH, line) for line in range(30)]
    stdlib = frame(f"{sysconfig.get_paths()['stdlib']}/contextlib.py", 9)
    text = traceback(frame("/job/train.py", 3), *inside, frame("/job/model.py", 4), stdlib, *inside, message="E: out")
    told = list(tracebacks(failed(text), folder, "calibrate"))
    assert told == [
        "rank 0: E: out",
        *frame("/job/train.py", 3),
        *frame("/job/model.py", 4),
        f"  in full: {folder.log(0, 'calibrate')}",
    ]


def test_one_that_is_short_is_shown_in_full_and_once_for_all_its_ranks(tmp_path: Path) -> None:
    text = traceback(frame("/job/train.py", 3))
    told = list(tracebacks(failed(text, text), Folder(tmp_path), "capture"))
    assert told == ["ranks 0-1: ValueError: no", *frame("/job/train.py", 3)]


def test_of_many_frames_the_innermost_are_shown() -> None:
    frames = [frame("/job/model.py", line) for line in range(20)]
    repeated = ["  [Previous line repeated 990 more times]"]
    kept = [line for one in frames[-MOST_FRAMES:] for line in one]
    assert shown(traceback(*frames, repeated, message="RecursionError: deep")).lines == ("RecursionError: deep", *kept)


def test_where_none_is_of_the_program_the_innermost_is_shown() -> None:
    text = traceback(frame(TORCH, 1), frame(TORCH, 2))
    assert shown(text) == (("ValueError: no", *frame(TORCH, 2)), False)
    assert shown("ValueError: no\n") == (("ValueError: no",), True)


def test_of_exceptions_in_a_row_the_last_is_shown() -> None:
    first = traceback(frame("/job/train.py", 3), message="KeyError: 'x'")
    text = f"{first}\nDuring handling of the above exception, another exception occurred:\n\n"
    text += traceback(frame("/job/train.py", 5))
    assert shown(text) == (("ValueError: no", *frame("/job/train.py", 5)), False)


def test_a_long_message_is_cut() -> None:
    found = shown(traceback(frame("/job/train.py", 3), message="E: " + "x" * 100_000))
    assert (len(found.lines[0]), found.whole) == (LONGEST + len(" ..."), False)
    found = shown(traceback(frame("/job/train.py", 3), message="E: 1\n    2\n" + "line\n" * 100))
    assert found.lines == ("E: 1", "    2", *["line"] * (MOST_LINES - 2), "...", *frame("/job/train.py", 3))


def test_of_many_different_ones_the_first_are_shown(tmp_path: Path) -> None:
    texts = [traceback(frame("/job/train.py", rank)) for rank in range(MOST_TRACEBACKS + 3)]
    told = list(tracebacks(failed(*texts), Folder(tmp_path), "capture"))
    assert sum(line.endswith("ValueError: no") for line in told) == MOST_TRACEBACKS
    assert told[-1] == f"and 3 more, of other ranks: {tmp_path / 'result.json'}"
