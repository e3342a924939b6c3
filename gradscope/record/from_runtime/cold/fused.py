"""Optimizer steps: one call that writes to many tensors, to some of them several times."""

from __future__ import annotations

from collections import Counter
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.record.from_runtime.cold.history import version_of
from gradscope.record.from_runtime.cold.operators import why
from gradscope.record.from_runtime.error_lines.recent import (
    Maker,
    WriteAt,
    remember_write,
)
from gradscope.record.notes.local_names import names_in
from gradscope.record.notes.log import take_all

if TYPE_CHECKING:
    from types import FrameType

    from gradscope.record.from_runtime.cold.catalog import Catalog


class FusedWrites:
    """Records such calls, a list for each; their writes become rows when notes are flushed."""

    def __init__(self) -> None:
        self._noted: list[tuple[Any, ...]] = []

    def note(
        self, catalog: Catalog, op: Any, inputs: Any, written: Any, begin: int, site: int,
        context: int, frame: FrameType, grad_enabled: bool,
    ) -> tuple[int, list[Any]]:  # fmt: skip
        """Record a call that wrote to each tensor as often as it is listed. Returns its number."""
        base, end = catalog.base, perf_counter_ns()
        number = catalog.next_number()
        catalog.recent.full_call(number, Maker(op.name, site, grad_enabled))
        times = Counter(map(id, written))
        targets = list({id(each): each for each in written}.values())
        _describe(catalog, (*targets, *inputs), len(targets), frame)
        numbers = [target.record_nr & ~1 for target in targets]
        catalog.ops.append((
            number, catalog.texts[op.name], begin, end, tuple([t.record_nr & ~1 for t in inputs]),
            tuple(numbers), base, context, site, why(op, None),
        ))  # fmt: skip
        storages, last = [], []
        for target, seen in zip(targets, numbers, strict=True):
            storages.append(seen if target._storage is None else catalog.storage_of(target, seen))
            version = version_of(target)
            last.append(version)
            remember_write(target._versions, base, WriteAt(version, op.name, site))
        writes = [times[id(target)] for target in targets]
        self._noted.append((storages, numbers, last, writes, number, site, context, end))
        return number, targets

    def take(self, start: int) -> dict[str, Any] | None:
        """All writes since the last time, one row per version."""
        noted = take_all(self._noted)
        if not noted:
            return None
        lists, each = list(zip(*noted, strict=True))[:4], [row[4:] for row in noted]
        storage, tensor, last, times = (np.concatenate(parts).astype(np.int64) for parts in lists)
        sizes = [sum(row[3]) for row in noted]
        op, stack, context, end = (
            np.repeat(np.array(column, np.int64), sizes) for column in zip(*each, strict=True)
        )
        # 1, 2, … up to each tensor's number of writes.
        ordinal = np.arange(len(op)) - np.repeat(np.cumsum(times) - times, times) + 1
        new = np.repeat(last - times, times) + ordinal
        return {
            "storage": np.repeat(storage, times), "tensor": np.repeat(tensor, times),
            "old": new - 1, "new": new, "op": op, "stack": stack, "context": context,
            "t": end - start,
        }  # fmt: skip


def _describe(catalog: Catalog, tensors: tuple[Any, ...], written: int, frame: FrameType) -> None:
    """Describe tensors not seen before, mostly gradients; the first `written` were written to."""
    base, names = catalog.base, None
    for place, tensor in enumerate(tensors):
        if tensor.record_nr <= base:
            names = names_in(frame) if names is None else names
            name = names.get(id(tensor), "") if tensor.is_leaf else ""
            catalog.tensor(tensor, name=name, written=place < written)
