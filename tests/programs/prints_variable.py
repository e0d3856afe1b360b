"""Prints one variable of its environment."""

import os

print(os.environ.get("ONLY_FOR_ONE_RUN"), flush=True)
