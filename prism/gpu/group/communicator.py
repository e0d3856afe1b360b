"""The communicator of one group on one rank: each method says which bytes go in, which tensors come out, and posts.

The methods' names and argument shapes are torch.distributed's; what they have in common is in prism.gpu.group.posting.
Two faces show a communicator to torch: prism.gpu.group.native_group (C++) and prism.gpu.group.python_group.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from prism.core.graph import OpKind
from prism.gpu.group.arguments import (
    Tensors,
    chunks,
    count_of,
    is_awaited,
    listed,
    premultiplied,
    premultiplier,
    reduction,
    splits,
)
from prism.gpu.group.posting import Posting


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


class Communicator(Posting):
    """What torch calls of a group."""

    # -- collectives -------------------------------------------------------------------------------------------------

    @_posts
    def allreduce(self, tensors: Any, opts: Any = None, timeout: Any = None) -> Any:
        tensors = listed(tensors)
        return self._post(OpKind.ALL_REDUCE, self._scaled(tensors, opts), tensors, reduce=reduction(opts))

    @_posts
    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Any:
        if self._each_alone(tensors):
            return self._batched([functools.partial(self.allreduce, [one], opts) for one in tensors])
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
        if self._each_alone(inputs):
            pairs = zip(outputs, inputs, strict=True)
            return self._batched([functools.partial(self.all_gather_single, *pair, opts) for pair in pairs])
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
        if self._each_alone(inputs):
            pairs = zip(outputs, inputs, strict=True)
            return self._batched([functools.partial(self.reduce_scatter_single, *pair, opts) for pair in pairs])
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

    # -- several at once ---------------------------------------------------------------------------------------------

    def _each_alone(self, tensors: Tensors) -> bool:
        """Whether a coalesced collective is one of each tensor, as NCCL's is; else all go into one."""
        return self.coalesces and len(tensors) > 1

    def _batched(self, posts: Sequence[Callable[[], Any]]) -> Any:
        """The work object for all of them, which are a batch, or part of one that the program has begun."""
        if self.batching:
            return [post() for post in posts][-1]
        self.start_coalescing()
        for post in posts:
            post()
        return self.end_coalescing()

    # -- arguments ---------------------------------------------------------------------------------------------------

    def _scaled(self, tensors: Tensors, opts: Any) -> Tensors:
        """The inputs of a reduction: the tensors, or what PREMUL_SUM's factor, each rank's own, makes of them."""
        factor = premultiplier(opts)
        return tensors if factor is None else premultiplied(tensors, factor)

    def _even(self, count: int) -> list[int]:
        return [count // len(self.ranks)] * len(self.ranks)
