"""In-place writes, as far as they follow from nodes.

The name of the call ends in `_`, its first input is the tensor written to, and its result is the
same tensor. Writes that create no node are not included, nor those whose nodes no backward reaches:
see in_place.py. The versions before and after are the observed ones. If these are not known, they
follow from the version at which a node saved the tensor, if that many writes are known.
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
"""Number of results of writes whose tensors are stored."""


class PyTorchWrite(NamedTuple):
    """One call that wrote to its first input, by the number of its node."""

    number: int
    first: int  # the tensor of its first input
    site: int
    thread: int
    t: int
    made: int  # when its node was, and on which of the system's threads
    ident: int


SHAPING = frozenset(
    ("as_strided_", "squeeze_", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_")
)
"""Calls that write no values: they give a tensor another shape, and with it another row."""


def writes_to_first(name: str) -> bool:
    """Whether a call of this name writes to its first input."""
    return name.endswith("_") and not name.endswith("__") and name not in SHAPING


class PyTorchWrites:
    """Replaces ids of results of writes by those of the written tensors, in waiting rows.

    A result also keeps its own row: later references to it, after its tensor was forgotten, are
    then still valid.
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
        """`named`: columns of ids of tensors; `saved`: columns of saved values.

        `versions`: returns the versions after writes of threads at given times.
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
        """The observed versions after these writes, by number."""
        about = np.array([(write.number, write.ident, write.made) for write in writes], np.int64)
        number, thread, made = about.reshape(-1, 3).T
        after = versions(thread, made)
        return {
            nr: new for nr, new in zip(number.tolist(), after.tolist(), strict=True) if new != NONE
        }

    def _settle_saved(self, saved: dict[str, Ints], known: dict[int, bool]) -> None:
        """Set tensor and version of saved values that were written to."""
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
        """These ids, replaced by those of the known tensors."""
        if not self._same:
            return tensors
        same = np.array([*self._same.items()], np.int64)
        same = same[np.argsort(same[:, 0], kind="stable")]
        at = np.minimum(np.searchsorted(same[:, 0], tensors), len(same) - 1)
        return np.where(same[at, 0] == tensors, same[at, 1], tensors)
