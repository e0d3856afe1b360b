"""A job whose DDP does not ask other ranks whether their model is the same: what virtual ones say to that is zeros.

unverified.py SCRIPT [ARGUMENT...]
"""

import runpy
import sys
from pathlib import Path

from torch.nn.parallel import DistributedDataParallel

plain = DistributedDataParallel.__init__


def begin(self: DistributedDataParallel, *arguments: object, **named: object) -> None:
    plain(self, *arguments, init_sync=False, **named)  # type: ignore[arg-type]


DistributedDataParallel.__init__ = begin  # type: ignore[method-assign]
sys.argv = sys.argv[1:]
sys.path.insert(0, str(Path(sys.argv[0]).parent))
runpy.run_path(sys.argv[0], run_name="__main__")
