"""Rows of summaries: what was measured of one step, until its results have arrived."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, isfinite, nan, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradscope.record.acts.numbers.summaries.measures import UNREAD, NormFound, ratio, rounded
from gradscope.trace.schema import ParameterSummary, StepSummary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Look = int
"""The number of a measurement on a device, whose result arrives later."""


class MeasuredParameter(NamedTuple):
    """One parameter. `gradient`: None if it has none."""

    tensor: int
    gradient: NormFound | Look | None
    weight: NormFound | Look
    moved: float  # the sum of squares of the differences of the compared elements; NaN: none
    before: float  # the sum of squares of these elements before the step
    compared: int
    bits: int
    size: int  # number of elements


@dataclass(eq=False, slots=True)
class MeasuredStep:
    """One step that was measured."""

    step: int
    t: int
    roots: list[float | Look] = field(default_factory=list)
    parameters: list[MeasuredParameter] = field(default_factory=list)
    unread: int = 0

    def looks(self) -> Iterator[Look]:
        """The measurements on devices that it waits for."""
        sizes = [part for each in self.parameters for part in (each.gradient, each.weight)]
        yield from (each for each in (*sizes, *self.roots) if type(each) is int)


class DeviceResults:
    """The results of measurements on devices. `columns`: of looks that have arrived."""

    def __init__(self, looks: Sequence[Look], columns: Any) -> None:
        self._sizes, self._values = dict[Look, NormFound](), dict[Look, float]()
        if columns is None:
            return
        names = ("size", "nan", "posinf", "neginf", "mean", "rms")
        cells = (np.asarray(getattr(columns, name)).tolist() for name in names)
        for look, size, nans, above, below, mean, rms in zip(looks, *cells, strict=True):
            finite = size - nans - above - below
            norm = 0.0 if not size else rounded(rms * sqrt(finite)) if finite else nan
            self._sizes[look] = NormFound(norm, nans, above + below)
            self._values[look] = nan if nans else inf if above else -inf if below else mean

    def size(self, part: NormFound | Look | None) -> NormFound:
        """What was measured of a tensor."""
        if isinstance(part, NormFound):
            return part
        return UNREAD if part is None else self._sizes.get(part, UNREAD)

    def value(self, root: float | Look) -> float:
        """The value of a tensor with one element."""
        return self._values.get(root, nan) if type(root) is int else root


NO_RESULTS = DeviceResults((), None)


def summary_row(step: MeasuredStep, results: DeviceResults) -> StepSummary:
    """The row of a step."""
    gradients = [results.size(each.gradient) for each in step.parameters]
    weights = [results.size(each.weight) for each in step.parameters]
    return StepSummary(
        step=step.step,
        t=step.t,
        loss=_sum(map(results.value, step.roots)) if step.roots else nan,
        roots=len(step.roots),
        parameters=len(step.parameters),
        unread=step.unread,
        gradient=_joined(each.norm for each in gradients),
        gradient_nan=sum(each.nan for each in gradients),
        gradient_inf=sum(each.inf for each in gradients),
        weight=_joined(each.norm for each in weights),
        weight_bad=sum(each.nan + each.inf for each in weights),
        update=_update(step.parameters),
    )


def parameter_rows(step: MeasuredStep, results: DeviceResults) -> Iterator[ParameterSummary]:
    """The rows of the parameters of a step."""
    for each in step.parameters:
        if each.tensor < 0:  # it has no row in a full file
            continue
        gradient, weight = results.size(each.gradient), results.size(each.weight)
        yield ParameterSummary(
            step=step.step,
            tensor=each.tensor,
            gradient=gradient.norm,
            gradient_nan=gradient.nan,
            gradient_inf=gradient.inf,
            weight=weight.norm,
            weight_bad=weight.nan + weight.inf,
            update=ratio(each.moved, each.before),
            compared=each.compared,
            bits=each.bits,
        )


def columns_of_rows(rows: Sequence[Any]) -> dict[str, list[Any]]:
    """The columns of rows of one table."""
    names = type(rows[0]).__match_args__
    return dict(
        zip(names, map(list, zip(*(row.cells() for row in rows), strict=True)), strict=True)
    )


def _sum(values: Iterable[float]) -> float:
    total = sum(values)
    return rounded(total) if isfinite(total) else total


def _joined(norms: Iterable[float]) -> float:
    """The norm of everything, from norms of its parts; NaN if no part has one."""
    known = [each for each in norms if isfinite(each)]
    largest = max(known, default=nan)
    if not largest > 0:
        return largest
    return rounded(largest * sqrt(sum((each / largest) ** 2 for each in known)))


def _update(parameters: Iterable[MeasuredParameter]) -> float:
    """That of all parameters: compared elements stand for all elements."""
    moved = before = 0.0
    for each in parameters:
        if each.compared and isfinite(each.moved) and isfinite(each.before):
            share = each.size / each.compared
            moved, before = moved + each.moved * share, before + each.before * share
    return ratio(moved, before)
