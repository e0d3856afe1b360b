"""Documents that are executed: their files are written, their commands run, and what they print is as it is shown.

A block of a document belongs to the comment before it:

    <!-- file: NAME -->             the block is a file
    <!-- append: NAME -->           the block goes to the end of a file
    <!-- run: COMMAND => CODE -->   each line of the block is a line of the output, in this order; CODE is 0 if left out

A block of the last kind may begin with `$ COMMAND`, for those who read: the same, with any path to python. Numbers
and units of the output are not compared: times differ from machine to machine.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"<!-- (file|append|run): (.+?) -->\n(?:```[^\n]*\n(.*?)```)?", re.DOTALL)
PROMPT = "$ "
CLOCK = re.compile(r" \(\d+:\d\d:\d\d\)$")
"""What pytest adds to more than a minute."""
NUMBER = re.compile(r"[-+]?\d[\d,.]*(?: ?(?:ns|µs|ms|s|[KMGT]?i?B|%|x)\b)?")


@dataclass(frozen=True)
class Step:
    """One block: what to do with it, to which file or by which command, and its text."""

    act: str
    what: str
    text: str

    def take(self, folder: Path) -> None:
        """Do it; fails where the document is wrong."""
        if self.act == "run":
            self._run(folder)
        else:
            with (folder / self.what).open("w" if self.act == "file" else "a") as file:
                file.write(self.text)

    def _run(self, folder: Path) -> None:
        command, _, code = self.what.partition(" => ")
        words = shlex.split(command)
        if Path(words[0]).name == "python":
            words[0] = sys.executable
        ended = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
        said = ended.stderr + ended.stdout
        assert ended.returncode == int(code or 0), f"{command}\n{said}"
        rest = iter([plain(line) for line in said.splitlines()])
        shown = self.text.splitlines()
        if shown and shown[0].startswith(PROMPT):
            assert called(shown.pop(0).removeprefix(PROMPT)) == called(command), f"another command is run: {command}"
        for line in shown:
            assert any(plain(line) == other for other in rest), (
                f"{command}\ndoes not print, or not there:\n{line}\n\n{said}"
            )


def called(command: str) -> list[str]:
    """The words of a command; it does not matter where its program lies."""
    program, *words = shlex.split(command)
    return [Path(program).name, *words]


def plain(line: str) -> str:
    """A line without its numbers and the width of its gaps."""
    return " ".join(NUMBER.sub("#", CLOCK.sub("", line)).split())


def steps(document: Path) -> list[Step]:
    """The blocks of a document that are to be executed, in their order."""
    return [Step(*found.groups(default="")) for found in BLOCK.finditer(document.read_text())]
