"""Runs a program with a cap on its GPU's memory, as torch sets one: capped.py BYTES PROGRAM [ARGUMENT...]."""

import pathlib
import runpy
import sys

import torch

capacity, program, *arguments = sys.argv[1:]
total = torch.cuda.get_device_properties(0).total_memory
torch.cuda.set_per_process_memory_fraction(int(capacity) / total)
sys.argv = [program, *arguments]
sys.path.insert(0, str(pathlib.Path(program).parent))
runpy.run_path(program, run_name="__main__")
