"""The operations of a job whose mesh gets longer along one dimension: copied with their group, or widened with it.

The work goes channel by channel, since the ops of a channel stay together. The collectives of a stretched group are one
channel as before; every other channel is copied for each new coordinate that behaves as its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prism.core.graph import Graph, Int64, OpKind, Table
from prism.core.levels import pointers, ranges
from prism.core.what_if.mesh import NotExpandable, Stretch
from prism.core.what_if.stretched_groups import StretchedGroups, named

Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class StretchedOps:
    """The new ops in canonical order, and how old ones are found among them."""

    table: Table
    source: Int64  # new ops: the old op
    copy: Int64  # new ops: which copy of it
    widened: Bool  # new ops: a collective of a stretched group
    channel: Int64  # old ops: the channel, counted over the old graph
    place: Int64  # old ops: the number in it
    start_ptr: Int64  # old channels + 1
    start: Int64  # copy k of old channel c begins at the new op start[start_ptr[c] + k]

    def of(self, old: Int64, copy: Int64) -> Int64:
        """The new ops in which copies of ranks take part, for the old ops in which the ranks do."""
        first, last = self.start_ptr[self.channel[old]], self.start_ptr[self.channel[old] + 1]
        begin: Int64 = self.start[np.minimum(first + copy, last - 1)]  # of a widened op there is copy 0 only
        return begin + self.place[old]


@dataclass(frozen=True, slots=True)
class _Channels:
    """The channels of the old graph."""

    begin: Int64  # its first op
    length: Int64
    group: Int64
    message: Bool
    sender: Int64  # global rank; of a channel of collectives -1
    receiver: Int64


def stretched_ops(graph: Graph, along: Stretch, groups: StretchedGroups) -> StretchedOps:
    """Copy or widen each op; raises NotExpandable for a message that leads along the dimension."""
    old = _channels(graph)
    _refuse_along(graph, along, old)
    widened = groups.spans[old.group] & ~old.message
    at = np.where(old.message, along.coordinate(old.sender), groups.coordinate[old.group])
    copies = np.where(widened, 1, along.copies(at))
    channel, copy = np.repeat(np.arange(copies.size), copies), ranges(np.zeros_like(copies), copies)
    order, group = _canonical(along, groups, old, channel, copy)
    length = old.length[channel[order]]
    source = ranges(old.begin[channel[order]], old.begin[channel[order]] + length)
    start = np.empty(order.size, np.int64)
    start[order] = pointers(length)[:-1]
    return StretchedOps(
        table=_table(graph, groups, source, np.repeat(group[order], length)),
        source=source,
        copy=np.repeat(copy[order], length),
        widened=np.repeat(widened[channel[order]], length),
        channel=np.repeat(np.arange(old.length.size), old.length),
        place=ranges(np.zeros_like(old.length), old.length),
        start_ptr=pointers(copies),
        start=start,
    )


def _canonical(
    along: Stretch, groups: StretchedGroups, old: _Channels, channel: Int64, copy: Int64
) -> tuple[Int64, Int64]:
    """The order of the copies of channels, by new group, then as channels are in it; and the new group of each."""
    spans = groups.spans[old.group[channel]]
    group = groups.index[groups.index_ptr[old.group[channel]] + np.where(spans, 0, copy)]
    # Copies of a group keep the order of its channels; in a stretched one, global ranks are in the order of its own.
    sender = np.where(old.message[channel], along.rank(old.sender[channel], copy), -1)
    receiver = along.rank(old.receiver[channel], copy)
    return np.lexsort((receiver, np.where(spans, sender, channel), group)), group  # stable: tags stay as they were


def _channels(graph: Graph) -> _Channels:
    begin = np.flatnonzero(graph.ops["prev"] < 0)
    message = graph.ops["kind"][begin] == OpKind.SEND_RECV
    sender, receiver = np.full((2, begin.size), -1)
    first = graph.post_ptr[begin[message]]
    rank = graph.node_rank()
    sender[message], receiver[message] = rank[graph.posts[first]], rank[graph.posts[first + 1]]
    group = graph.ops["group"][begin].astype(np.int64)
    return _Channels(begin, np.diff(begin, append=len(graph.ops)), group, message, sender, receiver)


def _refuse_along(graph: Graph, along: Stretch, old: _Channels) -> None:
    leads = old.message & (along.coordinate(old.sender) != along.coordinate(old.receiver))
    for channel in np.flatnonzero(leads)[:1]:
        group = named(graph.groups[old.group[channel]])
        raise NotExpandable(
            f"a message from rank {old.sender[channel]} to rank {old.receiver[channel]} on {group} leads along "
            f"{along.name}; {along.extent} ranks in a row do not tell to which of {along.to} it would go"
        )


def _table(graph: Graph, groups: StretchedGroups, source: Int64, group: Int64) -> Table:
    table = graph.ops[source]
    table["prev"] = np.where(table["prev"] < 0, -1, np.arange(source.size) - 1)
    rooted = np.flatnonzero(table["root"] >= 0)
    first = groups.member_ptr[table["group"][rooted]]
    own = groups.copy == 0  # rows of members that stand for themselves, in the order of their old group ranks
    row = np.flatnonzero(own)[pointers(own)[first] + table["root"][rooted]]
    table["root"][rooted] = row - first
    table["group"] = group
    return table
