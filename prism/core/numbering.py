"""Numbers for rows and lists: equal ones get equal numbers, from 0, in no order that means anything."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from prism.core.graph import Int64


def number(columns: Iterable[npt.NDArray[np.integer]]) -> Int64:
    """A number for each row of these columns, int64[rows]."""
    table = np.stack(list(columns)).astype(np.int64)
    order = np.lexsort(table)
    differs = (np.diff(table[:, order], axis=1) != 0).any(axis=0)
    numbers = np.zeros(table.shape[1], np.int64)
    numbers[order[1:]] = np.cumsum(differs)
    return numbers


def number_lists(ptr: Int64, values: Int64) -> Int64:
    """A number for each list of a CSR, values[ptr[i]:ptr[i + 1]]: int64[lists]."""
    lengths = np.diff(ptr)
    numbers = np.zeros(len(lengths), np.int64)
    for length in np.unique(lengths[lengths > 0]).tolist():
        rows = np.flatnonzero(lengths == length)
        table = values[ptr[rows][:, None] + np.arange(length)]
        _, inverse = np.unique(table.view(np.dtype((np.void, table.itemsize * length))), return_inverse=True)
        numbers[rows] = numbers.max() + 1 + inverse.ravel()
    return numbers
