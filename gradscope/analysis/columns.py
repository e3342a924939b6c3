"""Small array look-ups that several analyses share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Kind = TypeVar("Kind", bound=IntEnum)


def member(kind: type[Kind], value: int) -> Kind | None:
    """The member with this value; None for one that a newer gradscope added."""
    try:
        return kind(value)
    except ValueError:
        return None


def positions(ids: Ids, wanted: Ids) -> Ids:
    """Where each wanted id stands in `ids`; -1 where it does not."""
    if len(ids) == 0:
        return np.full(len(wanted), -1, dtype=np.int64)
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    found = np.minimum(np.searchsorted(ordered, wanted), len(ids) - 1)
    return np.where(ordered[found] == wanted, order[found], -1)


def ranks(groups: Ids) -> Ids:
    """For each element, how many of the same value stand before it."""
    if len(groups) == 0:
        return groups.astype(np.int64)
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    places = np.arange(len(groups), dtype=np.int64)
    first = np.concatenate(([True], ordered[1:] != ordered[:-1]))
    starts = np.maximum.accumulate(np.where(first, places, 0))
    result = np.empty(len(groups), dtype=np.int64)
    result[order] = places - starts
    return result


@dataclass(frozen=True, slots=True)
class Links:
    """For each node, the nodes on the other side of its edges, in the order of the trace."""

    starts: Sequence[int]
    targets: Sequence[int]

    def of(self, node: int) -> Sequence[int]:
        if not 0 <= node < len(self.starts) - 1:
            return ()
        return self.targets[self.starts[node] : self.starts[node + 1]]


def links(sources: Ids, targets: Ids) -> Links:
    """Index edges by source. Ids are counters, so a plain offset table serves."""
    inside = (sources >= 0) & (targets >= 0)
    sources, targets = sources[inside], targets[inside]
    if len(sources) == 0:
        return Links((0,), ())
    order = np.argsort(sources, kind="stable")
    starts = np.concatenate(([0], np.cumsum(np.bincount(sources))))
    return Links(starts.tolist(), targets[order].tolist())
