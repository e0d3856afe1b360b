"""The files of a stage on one host."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prism.errors import RunError
from prism.gpu.cuda.pool_file import NAME, PoolFile
from prism.gpu.processes.stage_files import StageFiles
from prism.net.messages import Program, Setup


def stage(folder: Path, device: str = "cpu") -> Setup:
    """A stage whose output goes below `folder`."""
    return Setup(
        program=Program(), world_size=1, running=1, ranks_per_node=1, semantics="gloo", device=device,
        payloads=str(folder / "payloads"), logs=str(folder / "ranks"),
    )  # fmt: skip


def test_each_stage_on_a_gpu_has_a_host_pool_of_its_own(tmp_path: Path) -> None:
    if not PoolFile(tmp_path / NAME).huge:
        pytest.skip("this process may not mount")
    files, seen = StageFiles(tmp_path), list[tuple[int, int]]()
    for device in ("cuda", "cuda", "cpu"):
        pool = Path(files.lay_out(stage(tmp_path / "out", device)).scratch) / NAME
        if pool.exists():
            seen.append((pool.stat().st_dev, pool.stat().st_size))
            os.truncate(pool, 4096)
    assert [size for _, size in seen] == [0, 0], "none has what was in the one before, and a CPU has none"
    assert seen[0][0] != tmp_path.stat().st_dev


def test_an_output_folder_that_cannot_be_made_here_is_told_with_the_fix(tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    with pytest.raises(RunError, match=r"out/payloads cannot be made on .*: Not a directory; .* \(--out\)"):
        StageFiles(tmp_path).lay_out(stage(tmp_path / "out"))
