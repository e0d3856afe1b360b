"""Skew: how tokens are dealt to the members of a group when one of them gets more than its share."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from prism.core.graph import Int64

Shares = npt.NDArray[np.float64]


def skewed(sent: Int64, hottest: float) -> Int64:
    """What members send in place of `sent`, int64[matrices, n, n] tokens from member to member.

    hottest, from 1 to n: what the member that got most shall get, over the mean; from each sender so many even parts.
    The others get the rest in the proportions in which they had it, but none more than the hottest (so that 1 makes all
    parts even); where they had nothing, even parts. Each sender sends as much as before.
    """
    total = sent.sum(axis=2)[..., None]
    most = hottest * total / sent.shape[2]
    is_open = np.ones(sent.shape, np.bool_)
    np.put_along_axis(is_open, sent.sum(axis=1).argmax(axis=1)[:, None, None], False, axis=2)
    share = np.where(is_open, 0.0, most)
    while True:
        rest = total - np.where(is_open, 0.0, share).sum(axis=2, keepdims=True)
        share = np.where(is_open, rest * _proportions(sent, is_open), share)
        above = is_open & (share > most)
        if not above.any():
            return _whole(share)
        share = np.where(above, most, share)
        is_open &= ~above


def _proportions(sent: Int64, is_open: npt.NDArray[np.bool_]) -> Shares:
    """What part each open member has of all that goes to open members; even parts of nothing."""
    weight = np.where(is_open, sent, 0).astype(np.float64)
    weight = np.where(is_open & (weight.sum(axis=2, keepdims=True) == 0), 1.0, weight)
    proportions: Shares = weight / np.maximum(weight.sum(axis=2, keepdims=True), 1.0)
    return proportions


def _whole(share: Shares) -> Int64:
    """Shares in whole tokens, each less than one off; each sender's sum is kept."""
    ends = np.rint(np.cumsum(share, axis=2)).astype(np.int64)
    whole = ends.copy()
    whole[:, :, 1:] -= ends[:, :, :-1]
    return whole
