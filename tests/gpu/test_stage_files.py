"""The files of a stage on one host."""

from __future__ import annotations

from pathlib import Path

import pytest

from prism.errors import RunError
from prism.gpu.processes.stage_files import StageFiles
from prism.net.messages import Program, Setup


def test_an_output_folder_that_cannot_be_made_here_is_told_with_the_fix(tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    setup = Setup(
        program=Program(), world_size=1, running=1, ranks_per_node=1, semantics="gloo",
        payloads=str(tmp_path / "out" / "payloads"), logs=str(tmp_path / "out" / "ranks"),
    )  # fmt: skip
    with pytest.raises(RunError, match=r"out/payloads cannot be made on .*: Not a directory; .* \(--out\)"):
        StageFiles(tmp_path).lay_out(setup)
