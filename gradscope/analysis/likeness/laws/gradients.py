"""Gradients before the steps of optimizers, in two runs that need not be the same to the last bit.

They are compared by statistics of `.grad` after the last backward, before clipping.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from gradscope.analysis.program.acts import Acts, Done
from gradscope.trace.schema import (
    NONE,
    Device,
    GraphTask,
    Op,
    Place,
    StepAct,
    Tensor,
    Value,
)
from gradscope.trace.trace import Trace

BITS: Mapping[str, int] = {
    "float64": 52,
    "float32": 23,
    "float16": 10,
    "bfloat16": 7,
    "float8_e4m3fn": 3,
    "float8_e5m2": 2,
}
"""Bits of the fraction of a number."""

ON_DEVICES = 10
"""The same for float32 on other devices than the CPU, which may multiply in TF32."""

LATER = 4
"""How much larger differences may be after each step: parameters then differ by a rounding."""

STEPS = 3
"""Number of steps that are compared: small differences grow from step to step."""


@dataclass(frozen=True, slots=True)
class Precision:
    """The least precise dtype in which a run computes."""

    dtype: str
    bits: int

    @property
    def tolerance(self) -> float:
        """The relative difference at which half of the bits agree."""
        return float(2.0 ** (-self.bits / 2))


def precision(*traces: Trace) -> Precision:
    """The least precise floating-point dtype that calls return in these runs."""
    found = {each for trace in traces for each in _precisions(trace)}
    return min(found, key=lambda each: each.bits, default=Precision("float32", BITS["float32"]))


def _precisions(trace: Trace) -> Iterator[Precision]:
    devices = {row.id: row.name for row in trace.rows(Device)}
    table = trace.table(Tensor)
    returned = set(trace.table(Op)["outputs"].values.tolist())
    kinds = {
        (dtype, device)
        for id, dtype, device in zip(
            table["id"].tolist(), table["dtype"].tolist(), table["device"].tolist(), strict=True
        )
        if id in returned
    }
    for number, device in kinds:
        dtype = trace.text(number)
        if dtype in BITS:
            on_cpu = devices.get(device, "cpu").startswith("cpu")
            bits = BITS[dtype] if on_cpu or dtype != "float32" else ON_DEVICES
            yield Precision(dtype, bits)


@dataclass(frozen=True, slots=True)
class StepGradients:
    """The gradients that one step of an optimizer used, and the backwards that computed them."""

    act: Done[StepAct]
    tensors: tuple[int, ...]  # of the optimizer
    values: Mapping[int, Value]  # of `.grad`, by tensor
    tasks: tuple[GraphTask, ...]
    since: int  # when the step before ended


Sides = tuple[StepGradients, StepGradients]
"""One step in both runs."""

Found = TypeVar("Found")


class SteppedGradients:
    """The gradients before each step of a run."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    @cached_property
    def steps(self) -> tuple[StepGradients, ...]:
        """All steps of all optimizers, by time, with what arrived since the step before."""
        found = []
        for optimizer in self.trace.once(Acts).optimizers:
            before = -1
            for act in optimizer.steps:
                tasks = tuple(task for task in self._tasks if before < task.begin < act.t)
                held = frozenset(optimizer.tensors)
                values = {
                    tensor: value
                    for task in tasks
                    for tensor, value in self._of_task.get(task.id, {}).items()
                    if tensor in held
                }
                found.append(StepGradients(act, optimizer.tensors, values, tasks, before))
                before = act.t
        return tuple(sorted(found, key=lambda each: each.act.t))

    @cached_property
    def _tasks(self) -> list[GraphTask]:
        """The backwards that were called by the program, by time."""
        rows = (row for row in self.trace.rows(GraphTask) if row.parent == NONE)
        return sorted(rows, key=lambda row: row.begin)

    @cached_property
    def _of_task(self) -> Mapping[int, dict[int, Value]]:
        """By backward and tensor: the last value of `.grad` in it."""
        found: dict[int, dict[int, Value]] = {}
        for row in self.trace.rows(Value):
            if row.place == Place.GRAD:
                found.setdefault(row.task, {})[row.tensor] = row
        return found

    def starts(self, step: StepGradients) -> list[tuple[str, str]]:
        """For each parameter of the first step: its first value, and its norm; "" if not known."""
        first: dict[int, Value] = {}
        for row in self.trace.rows(Value):
            if row.place == Place.LEAF and row.node == NONE:
                first.setdefault(row.tensor, row)
        sizes = [repr(size) for size in step.act.facts.size] or [""] * len(step.tensors)
        values = [first.get(tensor) for tensor in step.tensors]
        measures = [repr((v.min, v.max, v.mean, v.norm)) if v else "" for v in values]
        return list(zip(measures, sizes, strict=False))

    def name(self, tensor: int) -> str:
        """The name of a parameter, or its shape."""
        table = self.trace.table(Tensor)
        if not table.has(tensor):
            return "a tensor"
        row = table.row(tensor)
        return row.name or f"a tensor {row.dtype} {list(row.shape)}"


@dataclass(frozen=True, slots=True)
class GradientPair:
    """The gradient of one parameter in both runs."""

    place: int  # of the parameter in its optimizer
    name: str
    norms: tuple[float, float]  # NaN: no gradient arrived
    factor: float  # of the second norm to the first; NaN: it has none
    scaled: bool  # whether the second gradient is the first one times the factor
    small: bool = False  # too small for a comparison: as large as roundings of others


def pairs_of(
    one: StepGradients, other: StepGradients, names: Iterable[str], tolerance: float
) -> tuple[GradientPair, ...]:
    """The gradients of one step of an optimizer, by parameter, in both runs."""
    sides = one.values, other.values
    least = [tolerance * _rms_of_all(side.values()) for side in sides]
    found = []
    for place, (name, a, b) in enumerate(zip(names, one.tensors, other.tensors, strict=False)):
        pair = sides[0].get(a), sides[1].get(b)
        if pair != (None, None):
            found.append(_pair((place, name), pair, least, tolerance))
    return tuple(found)


def _rms_of_all(values: Iterable[Value]) -> float:
    every = [value for value in values if math.isfinite(value.norm)]
    count = sum(value.count for value in every)
    return math.sqrt(sum(value.norm**2 for value in every) / count) if count else 0.0


def _pair(
    whose: tuple[int, str],
    pair: tuple[Value | None, Value | None],
    least: list[float],
    tolerance: float,
) -> GradientPair:
    one, other = pair
    if one is None or other is None:
        norms = tuple(math.nan if each is None else each.norm for each in pair)
        return GradientPair(*whose, (norms[0], norms[1]), math.nan, scaled=False)
    norms = one.norm, other.norm
    if one.rms <= least[0] and other.rms <= least[1] and _is_finite(one) and _is_finite(other):
        return GradientPair(*whose, norms, math.nan, scaled=True, small=True)
    factor = other.norm / one.norm if one.norm else math.nan
    return GradientPair(*whose, norms, factor, scaled=_is_scaled(one, other, factor, tolerance))


def _is_finite(value: Value) -> bool:
    return not value.nan and not value.posinf and not value.neginf


def _is_scaled(one: Value, other: Value, factor: float, tolerance: float) -> bool:
    """Whether all statistics of the second value are those of the first times the factor."""
    if (one.nan, one.posinf, one.neginf) != (other.nan, other.posinf, other.neginf):
        return False
    if not math.isfinite(factor):
        return False
    peak = max(abs(one.min), abs(one.max))
    measures = (
        (one.min, other.min, peak),
        (one.max, other.max, peak),
        (one.mean, other.mean, one.rms),
    )
    return all(abs(b - factor * a) <= tolerance * factor * scale for a, b, scale in measures)


def common_factor(pairs: Iterable[GradientPair], tolerance: float) -> float:
    """The factor of all gradients together; NaN if it is not the same for each parameter."""
    known = [pair for pair in pairs if not pair.small]
    if not known or not all(pair.scaled for pair in known):
        return math.nan
    norms = [math.hypot(*(pair.norms[side] for pair in known)) for side in (0, 1)]
    factor = norms[1] / norms[0]
    same = all(abs(pair.factor - factor) <= 2 * tolerance * factor for pair in known)
    return factor if same else math.nan


def compared(
    runs: tuple[SteppedGradients, SteppedGradients],
    tolerance: float,
    find: Callable[[int, Sides, tuple[GradientPair, ...], float], Found | None],
) -> tuple[int, int, int, Found | None]:
    """Compare the first steps of two runs, until `find` finds a difference.

    The numbers of steps, of gradients and of those that are too small; and what was found.
    `find` is called with the number of a step, its gradients in both runs, their pairs, and the
    tolerance.
    """
    steps, gradients, small = 0, 0, 0
    for number, sides in enumerate(zip(runs[0].steps[:STEPS], runs[1].steps, strict=False)):
        pairs = pairs_of(*sides, map(runs[0].name, sides[0].tensors), tolerance)
        steps += 1
        gradients += len(pairs)
        small += sum(pair.small for pair in pairs)
        first = find(number, sides, pairs, tolerance)
        if first is not None:
            return steps, gradients, small, first
        tolerance *= LATER
    return steps, gradients, small, None


def other_start(one: SteppedGradients, other: SteppedGradients) -> str:
    """The first parameter that is not the same before the first step of both runs."""
    for first, second in zip(one.steps[:1], other.steps[:1], strict=False):
        starts = one.starts(first), other.starts(second)
        for tensor, a, b in zip(first.tensors, *starts, strict=False):
            if any(x != y for x, y in zip(a, b, strict=True) if x and y):
                return one.name(tensor)
    return ""


def differs(pair: GradientPair, tolerance: float) -> bool:
    """Whether two gradients are not the same."""
    return not pair.small and not (pair.scaled and abs(pair.factor - 1) <= tolerance)
