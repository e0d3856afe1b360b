"""Fuzz targets one after the other, each in a process of its own: `python -m tests.fuzz [--seconds 600] [TARGET...]`.

What ends a target (an exception that it does not promise, a minute over one input, a GiB of memory) is told with the
input, which belongs into tests/fuzz/found then.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.seeds import TARGETS, words, write_seeds

HANG_S = 60
"""No input takes a second, but it is the clock on the wall that is looked at, and the machine may be busy."""
IN_MEMORY = Path("/dev/shm")
MEMORY_MIB, LONGEST = 1024, 4096
FOUND = Path(__file__).with_name("found")
"""Inputs that something was wrong with once, in a folder for each target; they are the first to be tried."""


def fuzz(target: str, seconds: int, seed: int, finds: Path) -> tuple[int, str]:
    """Fuzz for so long; returns the exit code (0: nothing was found) and what was said last; finds go to a folder."""
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as name:
        folder, found = Path(name), FOUND / target
        (folder / "corpus").mkdir()
        write_seeds(target, folder / "corpus")
        (folder / "words").write_text("".join(f'"{word}"\n' for word in words(target)))
        corpora = [folder / "corpus", *([found] if found.exists() else [])]
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.fuzz.target",
                target,
                *corpora,
                *_options(folder, seconds, seed, finds / f"fuzz-{target}-"),
            ],
            cwd=Path(__file__).parents[2],
            env=os.environ | {"TMPDIR": name},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return done.returncode, done.stdout.decode(errors="backslashreplace")[-4000:]


def _options(folder: Path, seconds: int, seed: int, finds: Path) -> list[str]:
    """libFuzzer's."""
    options = {
        "max_total_time": seconds,
        "timeout": HANG_S,
        "rss_limit_mb": MEMORY_MIB,
        "max_len": LONGEST,
        "seed": seed,
        "artifact_prefix": finds,
        "print_final_stats": 1,
        "verbosity": 0,
        **({"dict": folder / "words"} if (folder / "words").stat().st_size else {}),
    }
    return [f"-{option}={value}" for option, value in options.items()]


def main() -> int:
    """Fuzz all targets, or those that are named; the exit code says whether something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=600, help="how long to fuzz each target")
    parser.add_argument("--seed", type=int, default=0, help="where chance starts; 0: anywhere")
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], help=f"of {', '.join(TARGETS)}")
    options = parser.parse_args()
    failed = False
    for target in options.targets or TARGETS:
        code, told = fuzz(target, options.seconds, options.seed, Path.cwd())
        print(f"== {target}: {'nothing found' if code == 0 else f'exit {code}'}\n{told}", flush=True)
        failed |= code != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
