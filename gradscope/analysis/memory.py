"""What the graph keeps alive for its backward, counted once for each storage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradscope.analysis.columns import Ids
from gradscope.trace.schema import NONE, Saved, Tensor
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class Peak:
    """The most bytes saved at once, and when."""

    bytes: int
    t: int


def saved_peak(trace: Trace) -> Peak:
    """The moment at which saved tensors held the most memory."""
    saved = trace.table(Saved)
    if not len(saved):
        return Peak(0, 0)
    released = saved["released"] != NONE
    holder = np.concatenate([_holders(trace), _holders(trace)[released]])
    size = np.concatenate([saved["bytes"], saved["bytes"][released]])
    t = np.concatenate([saved["t"], saved["released"][released]])
    change = np.concatenate(
        [np.ones(len(saved), np.int64), -np.ones(int(released.sum()), np.int64)]
    )
    order = np.lexsort((change, t, holder))  # at one moment a release comes before a save
    holder, size, t, change = holder[order], size[order], t[order], change[order]
    held = _running_count(holder, change)
    # The storage counts from its first saver to its last release.
    delta = np.where((held == 1) & (change == 1), size, 0) - np.where(
        (held == 0) & (change == -1), _last_size(holder, size, held, change), 0
    )
    in_time = np.lexsort((delta, t))
    total = np.cumsum(delta[in_time])
    most = int(np.argmax(total))
    return Peak(int(total[most]), int(t[in_time][most]))


def _holders(trace: Trace) -> Ids:
    """One number for each storage; a saved value without one counts by itself."""
    saved, tensors = trace.table(Saved), trace.table(Tensor)
    by_itself = -2 - np.arange(len(saved), dtype=np.int64)
    if not len(tensors):
        return by_itself
    found = tensors.positions(saved["tensor"])
    storage = np.where(found == -1, NONE, tensors["storage"][found])
    return np.where(storage == NONE, by_itself, storage)


def _running_count(holder: Ids, change: Ids) -> Ids:
    """The cumulated changes, from zero for each holder."""
    total = np.cumsum(change)
    first = np.concatenate(([True], holder[1:] != holder[:-1]))
    before = np.where(first, total - change, 0)
    starts = np.maximum.accumulate(np.where(first, np.arange(len(holder)), 0))
    return total - before[starts]


def _last_size(holder: Ids, size: Ids, held: Ids, change: Ids) -> Ids:
    """At each row, the bytes that were counted when its storage was first held."""
    opening = (held == 1) & (change == 1)
    places = np.maximum.accumulate(np.where(opening, np.arange(len(holder)), 0))
    return size[places]
