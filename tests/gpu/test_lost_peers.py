"""Who loses a peer in the engine lets those speak who know why; where nobody does, it is said in the end."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from prism.core.events import Broke
from prism.gpu.emulation import assistant, sandbox
from prism.gpu.pruned import Aborted, Mismatch, PeerLost
from prism.net.board import Board

LOSSES = [PeerLost("p"), Mismatch("m")]


@pytest.fixture(autouse=True)
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assistant, "GRACE_S", 0)
    monkeypatch.setattr(sandbox, "GRACE_S", 0)


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path / "board", 2, 1, create=True)


def told_by_a_sandbox_rank(board: Board, error: Exception, cause: Exception | None = None) -> list[Any]:
    told: list[Any] = []
    participant = SimpleNamespace(any_ended=lambda: bool(board.ended.any()), cause=lambda lost: cause or lost)
    link: Any = SimpleNamespace(rank=3, participant=participant, tell=told.append)
    sandbox.SandboxLink.fail(link, error)
    return told


def exit_of_an_assistant(board: Board, error: Exception, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    codes: list[int] = []
    monkeypatch.setattr(assistant.os, "_exit", codes.append)
    line: Any = SimpleNamespace(sendall=lambda data: None)
    assistant._give_up(board, line, -1, error)
    return codes


@pytest.mark.parametrize("error", LOSSES, ids=lambda error: type(error).__name__)
def test_what_nobody_else_told_is_told(error: Exception, board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told_by_a_sandbox_rank(board, error) == [Broke(rank=3, reason=f"{type(error).__name__}: {error}")]
    assert exit_of_an_assistant(board, error, monkeypatch) == [1]


def test_a_peer_whose_program_is_over_may_go(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    board.ended[1] = 1
    assert told_by_a_sandbox_rank(board, PeerLost("p")) == []
    assert exit_of_an_assistant(board, PeerLost("p"), monkeypatch) == []


@pytest.mark.parametrize("ended", [0, 1])
@pytest.mark.parametrize(("error", "cause"), [(Aborted("a"), None), (PeerLost("p"), Aborted("a"))])
def test_what_all_was_called_off_for_is_told_and_in_the_log(
    error: Exception, cause: Exception | None, ended: int, board: Board, capsys: pytest.CaptureFixture[str]
) -> None:
    board.ended[1] = ended
    assert told_by_a_sandbox_rank(board, error, cause) == [Broke(rank=3, reason="Aborted: a")]
    assert capsys.readouterr().err.startswith("prism: a\n")


def test_an_assistant_leaves_it_to_who_called_all_off(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    assert exit_of_an_assistant(board, Aborted("a"), monkeypatch) == []
