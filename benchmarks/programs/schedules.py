"""The orders in which the stages of a pipeline do their work.

A task is (kind, chunk, micro-batch). Kinds: F is a forward, B a backward, W the part of a backward that computes the
gradients of the weights, where an order splits it off. A rank has `chunks` stages of the model; chunk c of rank r is
stage c x ranks + r.
"""


def one_f_one_b(ranks, rank, micro_batches):
    """1F1B: as many forwards ahead as there are stages behind, then a backward for each forward."""
    ahead = min(ranks - rank - 1, micro_batches)
    forwards = [("F", 0, m) for m in range(micro_batches)]
    backwards = [("B", 0, m) for m in range(micro_batches)]
    return _alternating(forwards, backwards, ahead)


def zero_bubble(ranks, rank, micro_batches):
    """ZB-H1 (Qi et al., 2023): 1F1B, but rank r lets r gradients of the weights wait, and does them where it idles."""
    order = []
    for task in one_f_one_b(ranks, rank, micro_batches):
        order.append(task)
        if task[0] == "B" and task[2] >= rank:
            order.append(("W", 0, task[2] - rank))
    return order + [("W", 0, m) for m in range(max(0, micro_batches - rank), micro_batches)]


def interleaved(ranks, rank, micro_batches, chunks):
    """Interleaved 1F1B (Narayanan et al., 2021): micro-batches pass in rounds of `ranks`, chunk by chunk."""
    assert micro_batches % ranks == 0, f"{micro_batches} micro-batches make no whole rounds of {ranks}"
    rounds = [range(first, first + ranks) for first in range(0, micro_batches, ranks)]
    forwards = [("F", chunk, m) for batch in rounds for chunk in range(chunks) for m in batch]
    backwards = [("B", chunk, m) for batch in rounds for chunk in reversed(range(chunks)) for m in batch]
    ahead = min(2 * (ranks - rank - 1) + (chunks - 1) * ranks, len(forwards))
    return _alternating(forwards, backwards, ahead)


def breadth_first(micro_batches, chunks):
    """GPipe's order with several chunks (Lamy-Poirier, 2022): all micro-batches through one chunk, then the next."""
    forwards = [("F", chunk, m) for chunk in range(chunks) for m in range(micro_batches)]
    return forwards + [("B", chunk, m) for chunk in reversed(range(chunks)) for m in range(micro_batches)]


def _alternating(forwards, backwards, ahead):
    """So many forwards first, then one forward and one backward in turn, then what is left."""
    steady = [task for pair in zip(forwards[ahead:], backwards, strict=False) for task in pair]
    return [*forwards[:ahead], *steady, *backwards[len(forwards) - ahead :]]
