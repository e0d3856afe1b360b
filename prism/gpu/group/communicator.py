"""The communicator of one group on one rank: each method says which bytes go in, which tensors come out, and posts.

The methods' names and argument shapes are torch.distributed's. What they have in common is one sentence: inputs are
copied back to back into a payload, and the result's bytes fill the outputs back to back. Two faces show a communicator
to torch: prism.gpu.group.native_group (C++) and prism.gpu.group.python_group.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from prism.core.calls import Call, Ref
from prism.core.events import Noticed
from prism.core.graph import OpKind
from prism.core.semantics import rules
from prism.core.stage.op import SELF_CONTAINED
from prism.gpu.group.arguments import (
    Tensors,
    chunks,
    count_of,
    dtype_of,
    is_awaited,
    listed,
    premultiplied,
    premultiplier,
    reduction,
    splits,
)
from prism.gpu.group.synthesis import synthesise
from prism.gpu.group.tensors import nbytes
from prism.gpu.group.work import Batch, Operation, Wrap
from prism.gpu.rank.link import Link


def _posts(method: Callable[..., Any]) -> Callable[..., Any]:
    """For a method that torch calls: what it makes of its arguments is no part of the program's time.

    The link is told whether torch waits at once.
    """

    @functools.wraps(method)
    def arrive(self: Communicator, *args: Any, **kwargs: Any) -> Any:
        self._link.arrive()
        self._link.announce(is_awaited(*args, **kwargs))
        return method(self, *args, **kwargs)

    return arrive


class Communicator:
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

    def split(self, name: str, ranks: Sequence[int]) -> Communicator:
        """A communicator of some of the members, given by their ranks in this group."""
        members = [self.ranks[r] for r in ranks]
        return type(self)(self._link, name, members, ranks.index(self.rank), self.backend, self._wrap)

    # -- collectives -------------------------------------------------------------------------------------------------

    @_posts
    def allreduce(self, tensors: Any, opts: Any = None, timeout: Any = None) -> Any:
        tensors = listed(tensors)
        return self._post(OpKind.ALL_REDUCE, self._scaled(tensors, opts), tensors, reduce=reduction(opts))

    @_posts
    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Any:
        return self._post(OpKind.ALL_REDUCE, self._scaled(tensors, opts), tensors, reduce=reduction(opts))

    @_posts
    def reduce(self, tensors: Any, opts: Any = None, timeout: Any = None) -> Any:
        tensors = listed(tensors)
        outputs = tensors if opts.rootRank == self.rank else []
        return self._post(
            OpKind.REDUCE, self._scaled(tensors, opts), outputs, reduce=reduction(opts), root=opts.rootRank
        )

    @_posts
    def broadcast(self, tensors: Any, opts: Any = None, timeout: Any = None) -> Any:
        tensors, root = listed(tensors), opts.rootRank
        inputs = tensors if root == self.rank else []
        outputs = [] if root == self.rank else tensors
        return self._post(OpKind.BROADCAST, inputs, outputs, root=root, count=count_of(tensors), like=tensors)

    @_posts
    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        outputs, inputs = outputs[0] if isinstance(outputs[0], list | tuple) else outputs, listed(inputs)
        return self._post(OpKind.ALL_GATHER, inputs, outputs, recv=[t.numel() for t in outputs])

    @_posts
    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Any:
        return self._post(OpKind.ALL_GATHER, [input], [output], recv=self._even(output.numel()))

    @_posts
    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Any:
        blocks = [list(chunks(output, len(self.ranks))) for output in outputs]
        by_rank = [block[r] for r in range(len(self.ranks)) for block in blocks]
        return self._post(OpKind.ALL_GATHER, inputs, by_rank, recv=self._even(count_of(outputs)))

    @_posts
    def allgather_coalesced(self, output_lists: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Any:
        # torch gives one list for each rank here, each as long as the inputs.
        outputs = [tensor for tensors in output_lists for tensor in tensors]
        return self._post(OpKind.ALL_GATHER, inputs, outputs, recv=[count_of(tensors) for tensors in output_lists])

    @_posts
    def gather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        at_root = opts.rootRank == self.rank
        flat = list(outputs[0]) if at_root else []
        recv = [t.numel() for t in flat]
        return self._post(OpKind.GATHER, listed(inputs), flat, root=opts.rootRank, recv=recv)

    @_posts
    def scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        outputs, at_root = listed(outputs), opts.rootRank == self.rank
        given = list(inputs[0]) if at_root else []
        count = count_of(given if at_root else outputs)
        return self._post(OpKind.SCATTER, given, outputs, root=opts.rootRank, count=count, like=outputs)

    @_posts
    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        given = inputs[0] if isinstance(inputs[0], list | tuple) else inputs
        outputs, send = listed(outputs), [t.numel() for t in given]
        return self._post(OpKind.REDUCE_SCATTER, self._scaled(given, opts), outputs, reduce=reduction(opts), send=send)

    @_posts
    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Any:
        send = self._even(input.numel())
        return self._post(
            OpKind.REDUCE_SCATTER, self._scaled([input], opts), [output], reduce=reduction(opts), send=send
        )

    @_posts
    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Any:
        blocks = [list(chunks(tensor, len(self.ranks))) for tensor in inputs]
        by_rank = [block[r] for r in range(len(self.ranks)) for block in blocks]
        send = self._even(count_of(inputs))
        return self._post(
            OpKind.REDUCE_SCATTER, self._scaled(by_rank, opts), outputs, reduce=reduction(opts), send=send
        )

    @_posts
    def all_to_all_single(
        self, output: torch.Tensor, input: torch.Tensor, output_splits: Any, input_splits: Any, opts: Any = None
    ) -> Any:
        for tensor in (output, input):
            if not tensor.is_contiguous():
                raise ValueError("Tensors must be contiguous")
        send, recv = splits(input, input_splits, len(self.ranks)), splits(output, output_splits, len(self.ranks))
        return self._post(OpKind.ALL_TO_ALL, [input], [output], send=send, recv=recv)

    @_posts
    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Any:
        send, recv = [t.numel() for t in inputs], [t.numel() for t in outputs]
        return self._post(OpKind.ALL_TO_ALL, inputs, outputs, send=send, recv=recv)

    @_posts
    def barrier(self, opts: Any = None, timeout: Any = None) -> Any:
        return self._post(OpKind.BARRIER, [], [])

    # -- messages ----------------------------------------------------------------------------------------------------

    @_posts
    def send(self, tensors: Tensors, destination: int, tag: int = 0) -> Any:
        return self._post(OpKind.SEND_RECV, tensors, [], peer=destination, tag=tag, sends=True)

    @_posts
    def recv(self, tensors: Tensors, source: int, tag: int = 0) -> Any:
        count = count_of(tensors)
        return self._post(OpKind.SEND_RECV, [], tensors, peer=source, tag=tag, count=count, like=tensors)

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> Any:
        return self.recv(tensors, -1, tag)

    # -- batches -----------------------------------------------------------------------------------------------------

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
        tensors = like or inputs or outputs
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

    def _posted(self, call: Call, inputs: Tensors, outputs: Tensors, compute: int) -> Any:
        """Post a call, `compute` ns after the program was resumed; returns its work object."""
        payload, operation = self._carry(call, inputs, outputs)
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

    def _stand_in(self, call: Call, inputs: Tensors, outputs: Tensors) -> Callable[[], None]:
        """What makes up a result."""
        return functools.partial(synthesise, call, self.rank, inputs, outputs)

    def _lasts(self, call: Call, inputs: Tensors) -> bool:
        """Whether an input is a result too, which the record keeps."""
        return call.kind in SELF_CONTAINED and self._link.kept.keeps(call.dtype, nbytes(inputs))

    def _scaled(self, tensors: Tensors, opts: Any) -> Tensors:
        """The inputs of a reduction: the tensors, or what PREMUL_SUM's factor, each rank's own, makes of them."""
        factor = premultiplier(opts)
        return tensors if factor is None else premultiplied(tensors, factor)

    def _watch_threads(self) -> None:
        """Warn once where a second thread of the program posts on a group whose operations must come in one order."""
        thread = self._link.thread()
        if self._link.completing or thread in self._posters:
            return
        self._posters[thread] = None
        if len(self._posters) == 2 and rules(self.backend).ordered:
            told = f"two threads post on group {self.name}: their order may differ from rank to rank"
            self._link.tell(Noticed(rank=self._link.rank, kind="unsafe_order", summary=told))

    def _even(self, count: int) -> list[int]:
        return [count // len(self.ranks)] * len(self.ranks)
