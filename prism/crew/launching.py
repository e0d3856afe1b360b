"""From the scenario's launcher to who starts the workers."""

from __future__ import annotations

from prism.folder import Folder
from prism.net.launchers import Launcher
from prism.net.launchers.external import ExternalLauncher
from prism.net.launchers.local import LocalLauncher
from prism.net.launchers.ray import RayLauncher
from prism.scenario import Scenario

TOKEN = "worker.token"
"""The file in the output folder with the keys of the run, where the scenario names no other."""


def launcher_of(scenario: Scenario, folder: Folder) -> Launcher:
    """Who starts the workers of a run."""
    wanted = scenario.launcher
    if wanted.kind == "local":
        return LocalLauncher(wanted.workers)
    if wanted.kind == "ray":
        return RayLauncher(wanted.workers, scenario.devices.slots, wanted.listen, wanted.wait / 1e9)
    token = folder.path / TOKEN if wanted.token_file is None else scenario.base / wanted.token_file
    assert wanted.listen is not None, "the schema asks for it"
    return ExternalLauncher(wanted.workers, wanted.listen, token.absolute(), wanted.wait / 1e9)
