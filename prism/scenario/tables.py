"""Reads the file of measured costs that a scenario names."""

from __future__ import annotations

from pathlib import Path as FilePath

from prism.core.timeline.measured import InvalidTable, Table, parse_table
from prism.errors import ScenarioError


def read_table(file: FilePath) -> Table:
    """The measured costs in a file; raises ScenarioError naming the line that is wrong."""
    try:
        return parse_table(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ScenarioError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{file}: is not UTF-8 at byte {error.start}, save it as UTF-8 text") from None
    except InvalidTable as error:
        raise ScenarioError(f"{file}:{error.line}: {error}") from None
