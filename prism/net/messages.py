"""What coordinator and workers say to each other: one closed union each way; tensors never travel in it."""

from __future__ import annotations

import msgspec

from prism.core.events import AnyEvent
from prism.core.instructions import AnyInstruction
from prism.core.stage.kept import EVERYTHING, Kept


class Message(msgspec.Struct, tag=True, kw_only=True, frozen=True):
    """Base of all messages."""


class Hello(Message, frozen=True):
    """Worker: I am here and ready."""

    worker: str
    pid: int
    host: str = ""  # its host's name
    ferry: str = ""  # where other workers get payloads of its host; "" for nowhere
    gateway: str = ""  # where an emulation comes in from other hosts, host:port; "" for nowhere


class Prepared(Message, frozen=True):
    """Worker: the stage may begin."""


class Broken(Message, frozen=True):
    """Worker: I cannot go on, and why; with a traceback it is the program's fault: its preload raised."""

    reason: str
    traceback: str = ""


class Alive(Message, frozen=True):
    """Either side: my loop turns. What was said before it and did not arrive is missed by it: messages are numbered."""


class Dismissed(Message, frozen=True):
    """Worker: nothing of the stage is left."""


class Report(Message, frozen=True):
    """Worker: what its ranks did, in the order in which it was heard."""

    events: tuple[AnyEvent, ...]


class Printed(Message, frozen=True):
    """Worker: bytes from `at` on of a rank's file in the folder of the logs, where the coordinator cannot read it."""

    file: str
    at: int
    data: bytes


class Laid(Message, frozen=True):
    """Either side: bytes from `at` on of a file that the processes of an emulation share; "" makes a new folder."""

    file: str = ""
    at: int = 0
    data: bytes = b""


class AskTime(Message, frozen=True):
    """Coordinator: what does your clock say?"""


class Time(Message, frozen=True):
    """Worker: my monotonic clock, in ns."""

    now: int


class Program(Message, frozen=True):
    """What every rank of a stage runs; paths are absolute."""

    script: str = ""
    module: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    preload: tuple[str, ...] = ()
    marker: str = "optimizer"


class Misfortune(msgspec.Struct, frozen=True):
    """What a rank acts out from the start of an iteration on: slow, hang, exit, raise or oom."""

    rank: int
    iteration: int
    do: str
    until: int | None = None  # the iteration at whose start a slow rank is itself again; None: never
    factor: float = 1.0  # what compute of a slow rank is multiplied by


class Emulating(msgspec.Struct, frozen=True):
    """What the processes of an emulation share: a directory, the sandbox ranks, and bytes for payloads read ahead."""

    directory: str
    sandbox: tuple[int, ...]
    pool: int
    recorded: bool = False  # whether results come from the record, and the engine moves bytes for their time alone
    attach: bool = False  # whether sandbox ranks wait for a debugger
    clock: int = 0  # ns: how far the clock that all hosts go by is ahead of this host's own
    lead: int = 0  # ns: how much before its time assistants let go of what goes to another host, which holds it
    apart: bool = True  # whether assistants may be on other hosts than their sandbox ranks: all FIFOs can be carried
    held: dict[str, int] = {}  # bytes of what was captured for the sandbox ranks, by the worker on whose host they are
    arc_device: int = -1  # the GPU that virtual ranks use; -1: that of the sandbox rank beside them


class Spread(msgspec.Struct, frozen=True):
    """Where the processes of an emulation are that has several hosts; all by the names of workers."""

    token: bytes
    gateways: dict[str, str]
    sandbox: dict[int, str]
    assistants: tuple[str, ...]  # as they are numbered: prism.net.dealing
    ahead: int = 0  # see Emulating.clock


class Setup(Message, frozen=True):
    """Coordinator: the stage that begins; `scratch` and `payloads` are the directories of the payload store."""

    program: Program
    world_size: int
    running: int  # how many ranks of the world run, at most
    ranks_per_node: int
    semantics: str
    payloads: str
    logs: str
    scratch: str = ""  # filled in by the worker: it lies on its host
    ferries: dict[str, str] = {}  # where payloads of the other workers' hosts are got, by their names
    folder: str = ""  # the coordinator's working directory, where the program would be started; "" leaves it
    changed: dict[bytes, bytes | None] = {}  # variables of the environment since the worker began; None: gone
    marker: str = ""  # a file beside the logs, which workers see that share the output folder; "" where all do
    spread: Spread | None = None  # of an emulation on several hosts
    device: str = "cpu"  # the kind of device that ranks run on: cpu or cuda
    present_as: str = ""  # the device model that the program is told it has; "" for none
    iterations: int = 0  # end each rank after so many; 0: when its program ends
    stage: str = "capture"
    answered: bool = False  # everything is answered from the record, so no input is kept
    kept: Kept = EVERYTHING  # what stays in the record
    faults: tuple[Misfortune, ...] = ()
    memory: int = 0  # bytes that the tensors of a rank may hold; 0 sets no limit
    folded: bool = False  # only some ranks run, so none may wait for all to have made a group
    names_groups: int = -1  # the rank that tells of groups which others make, too
    compared: tuple[int, ...] = ()  # ranks that tell a checksum of what they put in
    host_memory: int = 0  # bytes that all ranks may hold for themselves; 0 sets no limit
    spill: str = ""  # the folder for what is above; "" for none
    emulation: Emulating | None = None


class Order(Message, frozen=True):
    """Coordinator: instructions for the worker's ranks, to be carried out in this order."""

    instructions: tuple[AnyInstruction, ...]


class Dismiss(Message, frozen=True):
    """Coordinator: the stage is over; end what is left of it, and say when it has gone."""


class Goodbye(Message, frozen=True):
    """Coordinator: the run is over; end everything and leave."""


FromWorker = Hello | Prepared | Broken | Alive | Dismissed | Report | Printed | Laid | Time
FromCoordinator = Setup | Order | Dismiss | Goodbye | Alive | Laid | AskTime
