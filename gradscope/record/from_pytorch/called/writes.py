"""Writes in place, as far as nodes tell of them.

The call's name ends in `_`, its first input is what it wrote to, and its result the same tensor.
Writes that make no node (under `no_grad`, to what needs no gradient) are not among them, nor those
whose nodes no backward reaches. How often a tensor was written to is seen where a node keeps it;
the version before and after each write follows only where that is the number of known writes.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradscope.trace.schema import NONE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gradscope.record.from_pytorch.tensors import Tensors
    from gradscope.trace.ragged import Ragged


MOST_KNOWN = 1 << 16
"""Of so many results of writes it is remembered which tensors they are."""


class Write(NamedTuple):
    """One call that wrote to its first input, by the number of its node."""

    number: int
    first: int  # the tensor that its first input was
    site: int
    thread: int
    t: int


def writes_to_first(name: str) -> bool:
    """Whether a call of this name writes to its first input."""
    return name.endswith("_") and not name.endswith("__")


class Writes:
    """Gives results of writes the ids of what was written to, in rows that are about to go out.

    A result keeps its own row, too: who names it later, when it is forgotten which it was, names
    something that is there.
    """

    def __init__(self, tensors: Tensors) -> None:
        self._tensors = tensors
        self._same: dict[int, int] = {}
        self._of: defaultdict[int, list[Write]] = defaultdict(list)

    def __bool__(self) -> bool:
        return bool(self._same)

    def settle(
        self,
        writes: Sequence[Write],
        named: Iterable[Ragged],
        saved: list[tuple[Any, ...]],
        put: Callable[[list[tuple[int, ...]]], None],
    ) -> None:
        """`named`: columns of ids of tensors; `saved`: rows of what nodes keep."""
        for write in sorted(writes):
            target = self._target(write.first)
            self._same[write.number] = target
            self._of[target].append(write)
        for column in named:
            ids = map(self._target, column.values.tolist())
            column.values = np.fromiter(ids, np.int64, len(column.values))
        seen = self._tensors.merge({write.number: self._same[write.number] for write in writes})
        known = {
            target: seen[target][1] == len(own)
            for target, own in self._of.items()
            if target in seen
        }
        for place, (node, slot, tensor, version, *more) in enumerate(saved):
            target = self._target(tensor)
            if target in self._of:
                then = version
                if known.get(target):
                    then = sum(write.number <= node for write in self._of[target])
                saved[place] = (node, slot, target, then, *more)
        put([
            (seen.get(target, (NONE, 0))[0], target, nr if known.get(target) else NONE,
             nr + 1 if known.get(target) else NONE, write.number, write.site, write.thread, write.t)
            for target, own in self._of.items()
            for nr, write in enumerate(own)
        ])  # fmt: skip
        self._of.clear()
        if len(self._same) > MOST_KNOWN:
            for old in list(self._same)[: MOST_KNOWN // 2]:
                del self._same[old]

    def _target(self, tensor: int) -> int:
        return self._same.get(tensor, tensor)
