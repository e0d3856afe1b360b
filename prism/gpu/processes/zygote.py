"""The fork server: imports torch and what the scenario preloads once, then forks one process for each rank.

Forked ranks share the pages of what is imported, so that hundreds fit where tens of fresh interpreters would. It has
one thread, no event loop and no ZeroMQ, for none of them survive a fork. It reads `Birth` frames from a socket, answers
`Born`, and tells `Gone` when a rank's process has ended; when the socket closes, it kills its ranks and leaves.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import selectors
import signal
import socket
import sys
import traceback
import weakref
from typing import NoReturn

from prism.core.instructions import AnyInstruction
from prism.gpu.processes import huge_pages
from prism.gpu.processes.birth import Birth, Born, Failed, Gone, Ready, Unborn, die_with_parent
from prism.gpu.processes.limits import no_process
from prism.net.frames import Unpacker, decoder, pack

MANY = 64
"""Ranks from which on huge pages, which take a quarter of a second to make, save more than that in forks and exits."""

NICENESS = 10
"""How much a rank of a capture stands back: all that get a result at once are more than a scheduler shares CPUs among,
and the worker, whom they wait for, would be one of a thousand."""


class Zygote:
    """Forks on request and reaps."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._ranks: dict[int, int] = {}  # pid -> rank
        self._collapsed = False  # whether huge pages lie under what ranks share
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_write.setblocking(False)
        signal.set_wakeup_fd(self._wake_write.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector = selectors.DefaultSelector()
        for heard in (line, self._wake_read):
            self._selector.register(heard, selectors.EVENT_READ)

    def serve(self) -> None:
        """Work until the worker closes the line."""
        try:
            self._serve()
        except ConnectionError:
            pass  # the worker went while something was being said
        finally:
            self._kill_all()

    def _serve(self) -> None:
        births: Unpacker[Birth] = Unpacker(Birth)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._wake_read:
                    self._wake_read.recv(4096)
                    self._reap()
                    continue
                data = self._line.recv(1 << 16)
                if not data:
                    return
                for birth in births.feed(data):
                    self._fork(birth)

    def _fork(self, birth: Birth) -> None:
        if birth.setup.world_size >= MANY and not self._collapsed:
            self._collapsed = True
            huge_pages.collapse()
        try:
            pid = os.fork()
        except OSError as error:
            self._line.sendall(pack(Unborn(birth.rank, no_process(error))))
            return
        if pid == 0:
            try:
                self._leave_to(birth)
                _begin(birth)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)  # whatever happens, the fork server's own code must not go on in a rank
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.setpgid(pid, pid)  # here too: it may be killed before it gets to do it
        self._ranks[pid] = birth.rank
        self._line.sendall(pack(Born(birth.rank, pid)))

    def _leave_to(self, birth: Birth) -> None:
        """In the new process: let go of what is the fork server's."""
        gc.enable()
        os.setpgid(0, 0)  # what the rank starts can be killed with it
        die_with_parent(signal.SIGKILL)
        if birth.setup.stage == "capture":  # where times are taken, nobody stands back
            os.nice(NICENESS)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for held in (self._selector, self._line, self._wake_read, self._wake_write):
            held.close()

    def _reap(self) -> None:
        while self._ranks:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            rank = self._ranks.pop(pid, None)
            if rank is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)  # children that outlived the rank
                self._line.sendall(pack(Gone(rank, os.waitstatus_to_exitcode(status))))

    def _kill_all(self) -> None:
        for pid in self._ranks:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        for pid in list(self._ranks):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _begin(birth: Birth) -> NoReturn:
    """Be what is born: a rank, or with a number below 0 an assistant."""
    if birth.rank < 0:
        from prism.gpu.emulation.assistant import assist  # needs the pruned engine, which is not built everywhere

        assist(birth)
    from prism.gpu.rank.process import live  # imported before the fork, by `_import_for_all`

    live(birth)


def _import_for_all() -> None:
    """What ranks need of PRISM and torch, and what torch imports only when a program trains: once, not once a rank."""
    import torch
    import torch._dynamo
    import torch.distributed.fsdp
    import torch.distributed.pipelining
    import torch.distributed.tensor
    import torch.optim

    importlib.import_module("prism.gpu.rank.process")
    decoder(AnyInstruction)
    importlib.import_module("numpy.ma")  # else np.unique does so, which would hold an assistant up in its walk
    for lazily in ("torch.profiler._cupti_monitor", "prism.gpu._allocator", "prism.gpu.group.native_group"):
        with contextlib.suppress(ImportError):  # another torch, or one that the extensions were not built for
            importlib.import_module(lazily)
    torch.set_num_threads(1)  # before any parallel region: a fork would inherit a thread pool without its threads


def _keep_dynamo_out() -> None:
    """Let torch.compile run what is PRISM's as it is, as it does with a backend in C++.

    A compiled program gets there wherever its graph breaks for a collective, and Dynamo follows each call of Python.
    """
    import torch

    torch._dynamo.trace_rules.add("prism")


def _spare_the_ranks() -> None:
    """Do now what each rank would do: it would write to pages that all share, and so copy them.

    What was made here is finalized here: at its exit a rank would take apart all of torch's operators. Making a
    process group clears caches of torch.compile.
    """
    import torch

    for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined]
        finalizer.detach()
    torch._dynamo.trace_rules.clear_lru_cache()


def main() -> None:
    """`python -m prism.gpu.processes.zygote FD [MODULE...]`: serve on the inherited socket FD."""
    die_with_parent(signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line = socket.socket(fileno=int(sys.argv[1]))
    gc.disable()  # next to nothing of what is imported becomes garbage, and looking for it takes a quarter of the time
    _import_for_all()
    _keep_dynamo_out()
    _spare_the_ranks()
    for name in sys.argv[2:]:
        try:
            importlib.import_module(name)
        except Exception as error:
            reason = f"preload: {name} cannot be imported: {type(error).__name__}: {error}"
            line.sendall(pack(Failed(reason, traceback.format_exc())))
            return
    gc.freeze()  # the collector writes to all that it looks at, and a rank would copy it
    with contextlib.suppress(BrokenPipeError):  # the run was ended during the imports
        line.sendall(pack(Ready()))
    Zygote(line).serve()


if __name__ == "__main__":
    main()
