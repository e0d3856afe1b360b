"""Says what a rank has from the fork server, and what it does at its own end."""

import atexit
import gc
import os
import sys
import weakref


class Kept:
    """Something of the program's that is finalized."""


sys.kept = Kept()  # until the end
inherited = list(weakref.finalize._registry)
weakref.finalize(sys.kept, print, "finalized", flush=True)
atexit.register(print, "left", flush=True)
print("stands back", os.nice(0), flush=True)
print("collects", gc.isenabled(), "frozen", gc.get_freeze_count() > 100_000, flush=True)
print("finalizers", len(inherited), "optimizer", "torch._dynamo" in sys.modules, flush=True)
