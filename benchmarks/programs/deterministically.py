"""A program under deterministic algorithms, so that two runs have the same numbers: `... SCRIPT [ARGUMENT...]`."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"

import torch

torch.use_deterministic_algorithms(True)  # only warned, attention is not
del sys.argv[0]
sys.path.insert(0, str(Path(sys.argv[0]).parent))
runpy.run_path(sys.argv[0], run_name="__main__")
