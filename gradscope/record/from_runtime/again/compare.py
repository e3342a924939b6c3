"""Compares the gradient that a node returned with the one that its formula gives in float64.

# Note [How far a gradient may be off]
The formula in float64, on the same values, is taken for exact. How far a sound kernel may be from
it depends on the operation and the values: each element may be off as far as the exact one moves
when every operand changes by one unit of rounding of the node's dtype (the condition, measured with
random signs), and by its own rounding. Kernels add many terms one after another: that error grows
with the root of their number, and with their number if they are alike. A gradient beyond this is
compared with the same formula in the node's own dtype. If that is as far off, the dtype is the
reason and not the kernel: then what counts is how many bits of the whole gradient are left. Terms
that cancel lose bits in every dtype; only a range that is too narrow is said, which is so if the
same formula has its bits for a multiple of the incoming gradients. The ranges of float32 and
float64 end where no training can tell a gradient from 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import ml_dtypes
import numpy as np

from gradscope.record.from_runtime.again.formulas import (
    HALVES,
    OWN,
    NodeFormula,
    NoFormula,
    formulas_of,
)

if TYPE_CHECKING:
    from gradscope.watch.in_place.node_runs import CopiedRun, NodeArray

    Doubles = np.ndarray[Any, np.dtype[np.float64]]

BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
ROUNDINGS = 8
"""Number of roundings of one element that a kernel may add to those of its operands and result."""
SUMS = 2.0**-24
"""Unit of rounding in which kernels add up numbers of 16 bits, except at positions of an index."""
INDICES = {"index", "indices"}
DRIFT = 0.25
"""Roundings of equal terms that are added one after another do not cancel: 0.1 in float32, added
1,000,000 times, is off by 0.16 of a rounding of the sum for each."""
BITS_OF_HALVES = 11
"""The most bits that a dtype of 16 bits has."""
FEW, MANY = 3, 16
"""Number of times that operands are changed: at first, and to confirm a difference."""

AGREES, KERNEL, PRECISION, NO_FORMULA, NOT_FINITE = (
    "agrees",
    "kernel",
    "precision",
    "no formula",
    "not finite",
)
ORDER = (AGREES, NOT_FINITE, PRECISION, KERNEL, NO_FORMULA)
"""From the best to the worst. Where nodes of two operations have one name, the best one counts."""


@dataclass(frozen=True)
class NodeVerdict:
    """The result for one run of a node; for several inputs, that of the worst."""

    found: str
    input: str = ""
    off: float = 0.0  # norm of the difference, relative to that of the exact gradient
    allowed: float = 0.0  # the same, of the largest difference that is allowed
    times: float = math.nan  # the factor, if the gradient is a multiple of the exact one
    right: float = math.nan  # number of bits of the gradient that are right
    bits: int = 0  # number of bits that its dtype has

    @property
    def differs(self) -> bool:
        return self.found in (KERNEL, PRECISION)


class OtherGradients(NamedTuple):
    """Further gradients of a run by its formula, for all its inputs."""

    own: list[Any]  # in the node's own dtype
    moved: Callable[[float, int], list[Any]]
    """How far each element moves if operands change by this unit, this many times."""


def judged(run: CopiedRun) -> NodeVerdict:
    """Compare a run of a node with its formula. See Note [How far a gradient may be off]."""
    if not all(np.isfinite(each.values).all() for each in _floats(run)):
        return NodeVerdict(NOT_FINITE)
    verdicts = [_by(formula, run) for formula in formulas_of(run)]
    return min(verdicts, key=_rank, default=NodeVerdict(NO_FORMULA))


def _rank(verdict: NodeVerdict) -> int:
    return ORDER.index(verdict.found)


def _by(formula: NodeFormula, run: CopiedRun) -> NodeVerdict:
    """Compare all gradients of a run with those of one formula."""
    try:
        exact = formula.gradients(_double)
    except NoFormula:
        return NodeVerdict(NO_FORMULA)
    others = OtherGradients(_in_own_dtype(formula), cache(partial(_moved, formula, exact)))
    verdicts = [
        _compared(place, run, formula, whole, others)
        for place, whole in enumerate(exact)
        if whole is not None
    ]
    return max(verdicts, key=_rank, default=NodeVerdict(AGREES))


def _compared(
    place: int, run: CopiedRun, formula: NodeFormula, exact: Any, others: OtherGradients
) -> NodeVerdict:
    returned = run.returned[place]
    assert returned is not None
    if returned.dtype not in BITS or not np.isfinite(exact).all():
        return NodeVerdict(NOT_FINITE)
    found = returned.values.astype(np.float64)
    error = _apart(found, exact)
    bits = min(BITS[each.dtype] for each in (*_floats(run), returned) if each.dtype in BITS)
    unit = 2.0**-bits
    allowed = _allowed(place, run, others, exact, unit, FEW)
    if (error > allowed).any():
        allowed = _allowed(place, run, others, exact, unit, MANY)
    names = formula.names
    name = names[place] if place < len(names) else ""
    if not (error > allowed).any():
        return NodeVerdict(AGREES, name)
    size = float(np.linalg.norm(exact))
    by_dtype = allowed + ROUNDINGS * (_smallest(run, returned) + _of_own(others.own[place], exact))
    off = _relative(error, size)
    if not (error > by_dtype).any():
        left = max(0.0, -math.log2(off)) if off else float(bits)
        if left >= bits / 2 or not _out_of_range(place, formula, exact, found, bits):
            return NodeVerdict(AGREES, name)
        return NodeVerdict(PRECISION, name, off=off, right=left, bits=bits)
    times = math.nan
    if size and np.isfinite(found).all():
        factor = float((found * exact).sum()) / size**2
        if float(np.linalg.norm(found - factor * exact)) <= 1e-3 * abs(factor) * size:
            times = factor
    return NodeVerdict(KERNEL, name, off=off, allowed=_relative(allowed, size), times=times)


def _out_of_range(place: int, formula: NodeFormula, exact: Any, found: Any, bits: int) -> bool:
    """Whether the gradient overflowed, or its dtype could hold a multiple of it well."""
    if not np.isfinite(found).all():
        return True
    largest = float(np.abs(exact).max())
    if bits > BITS_OF_HALVES or not largest:
        return False
    times = 2.0 ** -round(math.log2(largest))
    made = _in_own_dtype(formula.for_multiple(times))[place]
    size = times * float(np.linalg.norm(exact))
    return made is not None and _relative(_of_own(made, times * exact), size) <= 2 ** (-bits / 2)


def _allowed(
    place: int, run: CopiedRun, others: OtherGradients, exact: Any, unit: float, count: int
) -> Any:
    """How far each element may be off."""
    terms, own = _terms(run, exact), 1.0 if run.saved.keys() & INDICES else min(SUMS / unit, 1.0)
    by_operands = (ROUNDINGS + own * math.sqrt(terms)) * others.moved(unit, count)[place]
    by_itself = (ROUNDINGS + own * terms * DRIFT) * unit * np.abs(exact)
    return by_operands + by_itself


def _terms(run: CopiedRun, exact: Any) -> int:
    """How many terms an element may be the sum of: what no dim of the gradient tells apart."""
    return max(
        each.values.size // max({1} | ({*each.values.shape} & {*exact.shape}))
        for each in run.grads
        if each is not None
    )


def _apart(one: Any, other: Any) -> Any:
    """The difference of each element; infinite where it is not finite."""
    with np.errstate(all="ignore"):
        return np.nan_to_num(np.abs(one - other), nan=np.inf, posinf=np.inf)


def _relative(part: Any, whole: float) -> float:
    size = float(np.linalg.norm(part))
    return size / whole if whole else math.inf if size else 0.0


def _of_own(own: Any, exact: Any) -> Any:
    """How far the formula is off in the node's own dtype."""
    return 0.0 if own is None else _apart(own.astype(np.float64), exact)


def _smallest(run: CopiedRun, returned: NodeArray) -> float:
    """The spacing at 0 of the coarsest dtype; kernels may flush float32 to 0 below its normals."""
    kinds = {each.dtype for each in (*_floats(run), returned)} & set(OWN)
    return max(
        float(ml_dtypes.finfo(OWN[each]).smallest_subnormal if each in HALVES
              else np.finfo(OWN[each]).smallest_normal)
        for each in kinds
    )  # fmt: skip


def _in_own_dtype(formula: NodeFormula) -> list[Any]:
    """The gradients in the node's own dtype; None where the formula cannot compute in it."""
    try:
        return list(formula.gradients(_own))
    except NoFormula:
        return [None] * formula.many


def _double(array: NodeArray) -> Any:
    return array.values.astype(np.float64) if array.dtype in OWN else array.values


def _own(array: NodeArray) -> Any:
    return array.values.astype(OWN[array.dtype]) if array.dtype in OWN else array.values


def _moved(formula: NodeFormula, exact: list[Any], unit: float, count: int) -> list[Any]:
    """How far each element of the gradients moves if every operand changes by a rounding."""
    moved: list[Any] = [None if each is None else np.zeros(each.shape) for each in exact]
    for seed in range(count):
        changed = partial(_changed, by=2 * unit, signs=np.random.default_rng(seed))
        for most, found, right in zip(moved, formula.gradients(changed), exact, strict=True):
            if right is not None:
                np.maximum(most, _apart(found, right), out=most)
    return moved


def _changed(array: NodeArray, by: float, signs: np.random.Generator) -> Any:
    if array.dtype not in OWN:
        return array.values
    made = array.values.astype(np.float64)
    return made * (1 + by * signs.choice((-1.0, 1.0), made.shape))


def _floats(run: CopiedRun) -> Iterator[NodeArray]:
    """The floating-point operands of a node."""
    waiting: list[Any] = [*run.grads, *run.saved.values()]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += each
        elif hasattr(each, "values") and each.dtype in OWN:
            yield each
