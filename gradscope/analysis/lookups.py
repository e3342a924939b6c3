"""Small look-ups that several analyses share, most of them in arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from gradscope.trace.schema import NONE
from gradscope.trace.schema.declare import Row
from gradscope.trace.trace import Table

Ids = NDArray[np.int64]
Kind = TypeVar("Kind", bound=IntEnum)
Item = TypeVar("Item")
Key = TypeVar("Key")


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Group items by key, in the order of their first items."""
    found: dict[Key, list[Item]] = {}
    for each in items:
        found.setdefault(key(each), []).append(each)
    return found


def member(kind: type[Kind], value: int) -> Kind | None:
    """The enum member with this value; None for a value of a newer gradscope."""
    try:
        return kind(value)
    except ValueError:
        return None


def as_written(table: Table[Row], ids: Iterable[int]) -> list[int]:
    """These ids, each once, in the order of their rows: the order of ids must not matter."""
    several = list(dict.fromkeys(ids))
    places = table.positions(np.array(several, np.int64))
    return [several[each] for each in np.argsort(places, kind="stable").tolist()]


def ranks(groups: Ids) -> Ids:
    """For each element, the number of equal elements before it."""
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


def counts(values: Ids) -> Ids:
    """For each element, the number of equal elements."""
    _, inverse, found = np.unique(values, return_inverse=True, return_counts=True)
    return found[inverse].astype(np.int64)


def paired(keys: tuple[Ids, Ids], wanted: tuple[Ids, Ids]) -> Ids:
    """The index of each wanted pair among the keys, the first of equal ones; -1 if it is absent.

    Ids may be any numbers, so pairs are compared by the ranks of their parts.
    """
    split = len(keys[0])
    parts = [
        np.unique(np.concatenate(both), return_inverse=True)[1]
        for both in zip(keys, wanted, strict=True)
    ]
    pairs = parts[0] * (int(parts[1].max(initial=0)) + 1) + parts[1]
    known, first = np.unique(pairs[:split], return_index=True)
    if not split:
        return np.full(len(wanted[0]), -1, dtype=np.int64)
    found = np.minimum(np.searchsorted(known, pairs[split:]), len(known) - 1)
    return np.where(known[found] == pairs[split:], first[found], -1)


@dataclass(frozen=True, slots=True)
class Links:
    """For each node, the nodes on the other side of its edges, in the order of the trace."""

    spans: Mapping[int, tuple[int, int]]  # range of the targets of each node in `targets`
    targets: Sequence[int]

    def of(self, node: int) -> Sequence[int]:
        begin, end = self.spans.get(node, (0, 0))
        return self.targets[begin:end]


def links(sources: Ids, targets: Ids) -> Links:
    """Index edges by source; edges without a source or target are left out."""
    inside = (sources != NONE) & (targets != NONE)
    sources, targets = sources[inside], targets[inside]
    order = np.argsort(sources, kind="stable")
    known, starts = np.unique(sources[order], return_index=True)
    ends = np.append(starts[1:], len(sources))
    spans = zip(starts.tolist(), ends.tolist(), strict=True) if len(known) else ()
    return Links(dict(zip(known.tolist(), spans, strict=True)), targets[order].tolist())
