"""Measures how far optimizer steps move parameters, by reading them before and after.

Parameters outside CPU memory, of dtypes that NumPy lacks other than bfloat16, or beyond a limit of
elements are not measured. From level `values` on each step is measured, unless that takes too long;
at level `engine` the first steps of each optimizer, and then fewer and fewer. In programs of
several ranks hashes of parameters and sums of gradients are taken, too, which can be compared
across ranks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from gradscope.record.acts.notes import leaves_of
from gradscope.record.notes.local_names import gradient_of
from gradscope.watch.in_place.sharded import local_part

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gradscope.record.acts.notes import ActNotes

ELEMENTS, FEWER = 1 << 23, 1 << 21
"""Largest number of elements that are stored before a step; and if few steps are measured."""

FIRST, SHARE = 8, 50
"""Number of steps that are measured in any case; share of time for others: one part in this many.
"""

FEW = 4
"""Number of first steps of each optimizer measured at level `engine`; then the 8th, 16th, …"""

DIGITS = 4
NO_HASH = -1
MOVES = ("moved", "size")


@dataclass(eq=False)
class ParametersBefore:
    """The parameters before a step."""

    arrays: list[NDArray[Any] | None]
    gradients: list[float]
    alike: list[tuple[int, float]]  # matrices with a single value: index, value
    sums: list[float]  # of gradients
    hashes: list[int]  # of parameters; NO_HASH: not read


class ParameterMoves:
    """Measures parameters before and after steps; `each`: around every step.

    `shared`: this process is one of several ranks.
    """

    def __init__(self, acts: ActNotes, *, each: bool, shared: bool) -> None:
        self._acts = acts
        self._each = each
        self._shared = shared
        self._steps: dict[int, int] = {}  # by optimizer
        self._before: dict[int, ParametersBefore] = {}
        self._looks = 0
        self._spent = 0
        self._began = perf_counter_ns()

    def is_due(self, optimizer: Any) -> bool:
        """Whether the next step of an optimizer is measured."""
        if self._each:
            passed = perf_counter_ns() - self._began
            return self._looks < FIRST or self._spent * SHARE <= passed
        number = self._steps[id(optimizer)] = self._steps.get(id(optimizer), 0) + 1
        return number <= FEW or number & (number - 1) == 0

    def stepping(self, optimizer: Any) -> None:
        """Called before the step."""
        began, memory = perf_counter_ns(), self._acts.look.memory
        left, kept = ELEMENTS if self._each else FEWER, ParametersBefore([], [], [], [], [])
        with np.errstate(all="ignore"):
            for place, leaf in enumerate(leaves_of(optimizer)):
                gradient = gradient_of(leaf)
                array = None if gradient is None or leaf.numel() > left else wide(leaf, memory)
                left -= 0 if array is None else array.size
                kept.arrays.append(None if array is None else array.copy())
                if not self._each or self._shared:
                    self._look_at(None if array is None else wide(gradient, memory), kept)
                if self._shared:
                    kept.hashes.append(NO_HASH if array is None else crc32(array.data))
                if self._each or array is None or leaf.ndim < 2 or array.size < 2:
                    continue
                if _is_alike(array):
                    kept.alike.append((place, float(array[0])))
        self._before[id(optimizer)] = kept
        self._looks += 1
        self._spent += perf_counter_ns() - began

    def _look_at(self, gradient: NDArray[Any] | None, kept: ParametersBefore) -> None:
        """Measure the gradient of one parameter."""
        kept.gradients.append(math.nan if gradient is None else norm(gradient))
        if self._shared:
            kept.sums.append(math.nan if gradient is None else float(np.add.reduce(gradient)))

    def stepped(self, optimizer: Any) -> dict[str, tuple[Any, ...]] | None:
        """Columns of its StepAct: `moved`, `size`, `grad`, and at level engine the others."""
        kept = self._before.pop(id(optimizer), None)
        leaves = leaves_of(optimizer)
        if kept is None or len(kept.arrays) != len(leaves):
            return None
        began, memory = perf_counter_ns(), self._acts.look.memory
        by, of = list[float](), list[float]()
        with np.errstate(all="ignore"):
            for leaf, before in zip(leaves, kept.arrays, strict=True):
                now = None if before is None else wide(leaf, memory)
                if before is None or now is None or now.shape != before.shape:
                    by.append(math.nan)
                    of.append(math.nan)
                else:
                    by.append(norm(now - before))
                    of.append(norm(before))
        self._spent += perf_counter_ns() - began
        found: dict[str, tuple[Any, ...]] = {
            "moved": tuple(by),
            "size": tuple(of),
            "grad": tuple(kept.gradients),
            "alike": tuple(place for place, _ in kept.alike),
            "alike_to": tuple(number for _, number in kept.alike),
            "sums": tuple(kept.sums),
            "hashes": tuple(kept.hashes),
        }
        return {name: cells for name, cells in found.items() if cells or name in MOVES}


def seen(tensor: Any, memory: Callable[[Any], memoryview | None]) -> NDArray[Any] | None:
    """The elements of a dense tensor in memory order; None: not readable.

    Of a DTensor: those of the part that this rank holds. `memory`: as in Look (notes.py).
    """
    tensor = local_part(tensor)
    kind = KINDS.get(str(tensor.dtype).rpartition(".")[2])
    there = None if kind is None else memory(tensor)
    if not there:
        return None
    array = np.frombuffer(there, kind)
    return array if array.size == tensor.numel() else None


def wide(tensor: Any, memory: Callable[[Any], memoryview | None]) -> NDArray[Any] | None:
    """The same, with bfloat16 as float32: its bits are the first half of one."""
    if not str(tensor.dtype).endswith("bfloat16"):
        return seen(tensor, memory)
    tensor = local_part(tensor)
    there = memory(tensor)
    bits = np.frombuffer(there, np.uint16) if there else np.zeros(0, np.uint16)
    if not there or bits.size != tensor.numel():
        return None
    return (bits.astype(np.uint32) << 16).view(np.float32)


KINDS = {name: np.dtype(name) for name in ("float32", "float64", "float16")}


def norm(array: NDArray[Any]) -> float:
    """The value rounded; NaN if it is not finite."""
    array = array if array.dtype != np.float16 else array.astype(np.float32)
    found = float(np.sqrt(np.dot(array, array)))
    return float(f"{found:.{DIGITS}g}") if np.isfinite(found) else math.nan


def _is_alike(array: NDArray[Any]) -> bool:
    return bool((array == array[0]).all())
