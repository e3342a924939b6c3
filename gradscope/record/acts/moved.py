"""How far an optimizer's steps move its parameters, looked at before and after.

Of parameters elsewhere than in the CPU's memory, of numbers that NumPy has not, and of what comes
after so many elements it is not told; nor of each step, once looking takes too long.
"""

from __future__ import annotations

import ctypes
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.record.acts.notes import leaves_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

ELEMENTS = 1 << 23
"""So many are kept from before a step at most."""

FIRST, SHARE = 8, 50
"""So many steps are looked at in any case; of the time, looks take one part in so many at most."""

DIGITS = 4

Moves = tuple[list[float | None], list[float | None]]


class Moved:
    """Looks at parameters around steps."""

    def __init__(self) -> None:
        self._before: dict[int, list[NDArray[Any] | None]] = {}
        self._looks = 0
        self._spent = 0
        self._began = perf_counter_ns()

    def stepping(self, optimizer: Any) -> None:
        """An optimizer is about to step."""
        began = perf_counter_ns()
        if self._looks >= FIRST and self._spent * SHARE > began - self._began:
            return
        left, kept = ELEMENTS, list[Any]()
        for leaf in leaves_of(optimizer):
            array = None if leaf.grad is None or leaf.numel() > left else seen(leaf)
            left -= 0 if array is None else array.size
            kept.append(None if array is None else array.copy())
        self._before[id(optimizer)] = kept
        self._looks += 1
        self._spent += perf_counter_ns() - began

    def stepped(self, optimizer: Any) -> Moves | None:
        """The norms of what was added to each parameter, and of what it was before."""
        kept = self._before.pop(id(optimizer), None)
        leaves = leaves_of(optimizer)
        if kept is None or len(kept) != len(leaves):
            return None
        began = perf_counter_ns()
        by, of = list[float | None](), list[float | None]()
        with np.errstate(all="ignore"):
            for leaf, before in zip(leaves, kept, strict=True):
                now = None if before is None else seen(leaf)
                if before is None or now is None or now.shape != before.shape:
                    by.append(None)
                    of.append(None)
                else:
                    by.append(norm(now - before))
                    of.append(norm(before))
        self._spent += perf_counter_ns() - began
        return by, of


def seen(tensor: Any) -> NDArray[Any] | None:
    """What is in a tensor's memory, in any order, as long as it is not freed."""
    kind, many = KINDS.get(str(tensor.dtype).rpartition(".")[2]), tensor.numel()
    if kind is None or tensor.device.type != "cpu" or tensor.is_sparse or not many:
        return None
    if not tensor.is_contiguous():
        span = 1 + sum((s - 1) * by for s, by in zip(tensor.shape, tensor.stride(), strict=True))
        if span != many:
            return None
    there = (ctypes.c_char * (many * kind.itemsize)).from_address(tensor.data_ptr())
    return np.frombuffer(there, kind)


KINDS = {name: np.dtype(name) for name in ("float32", "float64", "float16")}


def norm(array: NDArray[Any]) -> float | None:
    """Rounded; None where it is no finite number."""
    array = array if array.dtype != np.float16 else array.astype(np.float32)
    found = float(np.sqrt(np.dot(array, array)))
    return float(f"{found:.{DIGITS}g}") if np.isfinite(found) else None
