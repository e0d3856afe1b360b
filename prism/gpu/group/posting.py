"""Posting on one group of one rank: an input becomes a payload, a call is posted, and its caller gets a work object.

Inputs are copied back to back into a payload, and the result's bytes fill the outputs back to back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Self

import torch

from prism.core.calls import Call, Ref
from prism.core.events import Noticed
from prism.core.graph import OpKind
from prism.core.semantics import rules
from prism.core.stage.op import SELF_CONTAINED
from prism.core.stage.unmatched import ANY
from prism.gpu.group.arguments import Tensors, count_of, dtype_of
from prism.gpu.group.fitting import refuse_irreducible, refuse_misfit, refuse_sparse
from prism.gpu.group.synthesis import synthesise
from prism.gpu.group.tensors import nbytes
from prism.gpu.group.work import Batch, Operation, Wrap
from prism.gpu.rank.link import Link


class Posting:
    """One group; `ranks` are the members' global ranks, `wrap` makes the work objects that callers get."""

    def __init__(self, link: Link, name: str, ranks: Sequence[int], rank: int, backend: str, wrap: Wrap) -> None:
        self.name = name
        self.ranks = tuple(ranks)
        self.rank = rank
        self.backend = backend
        self.coalesces = rules(backend).one_work  # whether torch posts a batch of messages as one
        self.posted = 0
        self._link = link
        self._wrap = wrap
        self._batch: Batch | None = None
        self._posters: dict[int, None] = {}  # threads that have posted
        link.join(name, self.ranks, backend)

    def split(self, name: str, ranks: Sequence[int]) -> Self:
        """The same of some of the members, given by their ranks in this group."""
        members = [self.ranks[r] for r in ranks]
        return type(self)(self._link, name, members, ranks.index(self.rank), self.backend, self._wrap)

    # -- batches -----------------------------------------------------------------------------------------------------

    @property
    def batching(self) -> bool:
        """Whether what is posted now is part of a batch."""
        return self._batch is not None

    def start_coalescing(self) -> None:
        """What is posted from here on is one batch; one that an exception has left open is given up."""
        self._batch = Batch(self._link, self._link.next_batch())

    def end_coalescing(self) -> Any:
        """The work object for all that was posted since."""
        batch, self._batch = self._batch, None
        assert batch is not None, "torch ends only batches that it has begun"
        work = self._wrap(batch)
        batch.one_done()
        return work

    # -- the one way in ----------------------------------------------------------------------------------------------

    def _post(
        self,
        kind: OpKind,
        inputs: Tensors,
        outputs: Tensors,
        *,
        like: Tensors = (),
        count: int | None = None,
        send: Sequence[int] = (),
        recv: Sequence[int] = (),
        **fields: Any,
    ) -> Any:
        compute = self._link.arrived()
        self._refuse_impossible(kind, send, recv, **fields)
        tensors = like or inputs or outputs
        refuse_sparse(kind, tensors)
        refuse_misfit(self.backend, kind, inputs, outputs, self.rank, len(self.ranks))
        refuse_irreducible(kind, fields.get("reduce", ""), inputs)
        call = Call(
            kind=kind,
            dtype=dtype_of(tensors) if tensors else "none",
            count=count_of(inputs) if count is None else count,
            send=tuple(send),
            recv=tuple(recv),
            shape=tuple(tensors[0].shape) if len(tensors) == 1 else (),
            **fields,
        )
        return self._posted(call, inputs, outputs, compute)

    def _refuse_impossible(
        self, kind: OpKind, send: Sequence[int], recv: Sequence[int], root: int = 0, peer: int = 0, **_: Any
    ) -> None:
        """Raise what backends raise for a member that the group does not have, or tensors for more or fewer of them."""
        size = len(self.ranks)
        name = kind.name.lower()
        if not 0 <= root < size:
            raise RuntimeError(f"{name}: invalid root rank: {root}; the group has {size} ranks")
        if not ANY <= peer < size:
            raise RuntimeError(f"{name}: invalid rank: {peer}; the group has {size} ranks")
        for tensors in filter(None, (send, recv)):
            if len(tensors) != size:
                raise ValueError(f"{name}: expected a tensor for each of the group's {size} ranks, got {len(tensors)}")

    def _posted(self, call: Call, inputs: Tensors, outputs: Tensors, compute: int) -> Any:
        """Post a call, `compute` ns after the program was resumed; returns its work object."""
        payload, operation = self._carry(call, inputs, outputs)
        operation.in_stream = self._in_stream(inputs, outputs)
        if self._link.synthesises:
            operation.stand_in = self._stand_in(call, inputs, outputs)
        work = self._wrap(operation)
        if self._batch is not None:
            self._batch.add(operation)
        self._watch_threads()
        batch = self._batch.number if self._batch is not None else 0
        operation.handle = self._link.post(self.name, call, payload, operation, compute, batch)
        operation.begin()
        self.posted += 1
        self._link.resume()
        return work

    def _carry(self, call: Call, inputs: Tensors, outputs: Tensors) -> tuple[Ref | None, Operation]:
        """Put an operation's input where others read it, and make what its result will fill."""
        payload = self._link.save(inputs, self._lasts(call, inputs)) if inputs else None
        return payload, Operation(self._link, outputs, call.peer, call.recv)

    def _in_stream(self, inputs: Tensors, outputs: Tensors) -> bool:
        """Whether a stream waits for an operation, as NCCL's groups have it; for one without tensors the host does."""
        return self.backend == "nccl" and any(self._on_device(tensor) for tensor in (*inputs, *outputs))

    def _on_device(self, tensor: torch.Tensor) -> bool:
        return bool(tensor.is_cuda)

    def _stand_in(self, call: Call, inputs: Tensors, outputs: Tensors) -> Callable[[], None]:
        """What makes up a result."""
        return functools.partial(synthesise, call, self.rank, inputs, outputs)

    def _lasts(self, call: Call, inputs: Tensors) -> bool:
        """Whether an input is a result too, which the record keeps."""
        return call.kind in SELF_CONTAINED and self._link.kept.keeps(call.dtype, nbytes(inputs))

    def _watch_threads(self) -> None:
        """Warn once where a second thread of the program posts on a group whose operations must come in one order."""
        thread = self._link.thread()
        if self._link.completing or thread in self._posters:
            return
        self._posters[thread] = None
        if len(self._posters) == 2 and rules(self.backend).ordered:
            told = f"two threads post on group {self.name}: their order may differ from rank to rank"
            self._link.tell(Noticed(rank=self._link.rank, kind="unsafe_order", summary=told))
