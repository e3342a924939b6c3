"""Writes in place, as far as nodes tell of them.

The call's name ends in `_`, its first input is what it wrote to, and its result the same tensor.
Writes that make no node are not among them, nor those whose nodes no backward reaches: for these
see in_place.py. The versions before and after are what was seen. Where that is not known, they
follow from how often the tensor was written to by the time a node kept it, if so many writes are
known.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gradscope.record.notes.log import Ints
from gradscope.trace.schema import NONE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gradscope.record.from_pytorch.tensors import PyTorchTensors
    from gradscope.trace.ragged import Ragged


MOST_KNOWN = 1 << 16
"""Of so many results of writes it is remembered which tensors they are."""


class PyTorchWrite(NamedTuple):
    """One call that wrote to its first input, by the number of its node."""

    number: int
    first: int  # the tensor that its first input was
    site: int
    thread: int
    t: int
    made: int  # when its node was, and on which of the system's threads
    ident: int


def writes_to_first(name: str) -> bool:
    """Whether a call of this name writes to its first input."""
    return name.endswith("_") and not name.endswith("__")


class PyTorchWrites:
    """Gives results of writes the ids of what was written to, in rows that are about to go out.

    A result keeps its own row, too: who names it later, when it is forgotten which it was, names
    something that is there.
    """

    def __init__(self, tensors: PyTorchTensors) -> None:
        self._tensors = tensors
        self._same: dict[int, int] = {}
        self._of: defaultdict[int, list[PyTorchWrite]] = defaultdict(list)

    def __bool__(self) -> bool:
        return bool(self._same)

    def settle(
        self,
        writes: Sequence[PyTorchWrite],
        named: Iterable[Ragged],
        saved: dict[str, Ints],
        put: Callable[[list[tuple[int, ...]]], None],
        versions: Callable[[Ints, Ints], Ints],
    ) -> None:
        """`named`: columns of ids of tensors; `saved`: columns of what nodes keep.

        `versions`: those after writes of threads at some time.
        """
        observed = self._observed(writes, versions)
        for write in sorted(writes):
            target = self._same.get(write.first, write.first)
            self._same[write.number] = target
            self._of[target].append(write)
        for column in named:
            column.values = self._targets(column.values)
        seen = self._tensors.merge({write.number: self._same[write.number] for write in writes})
        known = {
            target: seen[target][1] == len(own)
            for target, own in self._of.items()
            if target in seen
        }
        self._settle_saved(saved, known)
        follows = {
            write.number: nr + 1 if known.get(target) else NONE
            for target, own in self._of.items()
            for nr, write in enumerate(own)
        } | observed
        put([
            (seen.get(target, (NONE, 0))[0], target,
             follows[write.number] - 1 if follows[write.number] != NONE else NONE,
             follows[write.number], write.number, write.site, write.thread, write.t)
            for target, own in self._of.items()
            for write in own
        ])  # fmt: skip
        self._of.clear()
        if len(self._same) > MOST_KNOWN:
            for old in list(self._same)[: MOST_KNOWN // 2]:
                del self._same[old]

    def _observed(
        self, writes: Sequence[PyTorchWrite], versions: Callable[[Ints, Ints], Ints]
    ) -> dict[int, int]:
        """The versions after these writes, as far as they were seen, by number."""
        about = np.array([(write.number, write.ident, write.made) for write in writes], np.int64)
        number, thread, made = about.reshape(-1, 3).T
        after = versions(thread, made)
        return {
            nr: new for nr, new in zip(number.tolist(), after.tolist(), strict=True) if new != NONE
        }

    def _settle_saved(self, saved: dict[str, Ints], known: dict[int, bool]) -> None:
        """What nodes keep of what was written to: which tensor it is, and at which version."""
        if not saved:
            return
        targets = self._targets(saved["tensor"])
        places = np.flatnonzero(np.isin(targets, np.array([*self._of], np.int64)))
        saved["tensor"][places] = targets[places]
        for place in places.tolist():
            target, node = int(targets[place]), int(saved["node"][place])
            if known.get(target):
                before = sum(write.number <= node for write in self._of[target])
                saved["version"][place] = before

    def _targets(self, tensors: Ints) -> Ints:
        """What these are, where they are known to be others."""
        if not self._same:
            return tensors
        same = np.array([*self._same.items()], np.int64)
        same = same[np.argsort(same[:, 0], kind="stable")]
        at = np.minimum(np.searchsorted(same[:, 0], tensors), len(same) - 1)
        return np.where(same[at, 0] == tensors, same[at, 1], tensors)
