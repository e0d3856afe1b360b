"""The scenario: its schema, and the reading of scenario files."""

from prism.scenario.blocks import (
    Calibrate,
    Capture,
    Devices,
    Emulate,
    Fault,
    Fold,
    Iteration,
    Launcher,
    Moment,
    Output,
    Program,
    World,
)
from prism.scenario.network import Link, LinkChange, Network, NetworkChange, Topology
from prism.scenario.rules import STAGES, Stage
from prism.scenario.schema import Scenario
from prism.scenario.tables import read_table
from prism.scenario.what_if import Fail, Jitter, MicroBatches, Replicas, Routing, Slow, Speed, WhatIf

__all__ = [
    "STAGES",
    "Calibrate",
    "Capture",
    "Devices",
    "Emulate",
    "Fail",
    "Fault",
    "Fold",
    "Iteration",
    "Jitter",
    "Launcher",
    "Link",
    "LinkChange",
    "MicroBatches",
    "Moment",
    "Network",
    "NetworkChange",
    "Output",
    "Program",
    "Replicas",
    "Routing",
    "Scenario",
    "Slow",
    "Speed",
    "Stage",
    "Topology",
    "WhatIf",
    "World",
    "read_table",
]
