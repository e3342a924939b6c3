"""Memory that the program used before its asynchronous collective had ended.

A handle of the collective came back, and none of its methods was called before that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from gradscope.analysis.lookups import grouped
from gradscope.analysis.program.acts import Acts
from gradscope.analysis.ranks.merging.one_rank import parts
from gradscope.trace.schema import (
    NONE,
    BackendWork,
    Collective,
    Device,
    Handle,
    Span,
    Used,
)
from gradscope.trace.schema.sharding import GOES_ON
from gradscope.trace.trace import Trace

RETURNED = "returned"
ON_CPU = ("cpu", "meta")
LONGEST = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class UsedTooEarly:
    """Collectives of one line, whose memory one line used too early, on one rank."""

    rank: int
    name: str  # "all_reduce"
    called: int  # stack of the call
    by: str  # "optimizer.step()", or the name of an operation
    stack: int  # that used it
    span: int  # the first of these
    step: int
    many: int
    running: int  # how many of these had not ended by then, as far as it was seen
    waited: int  # stack of the method that was called too late; NONE: none was called
    holds: frozenset[int] | None  # parameters whose numbers were in it; None: not known


@dataclass(frozen=True, slots=True)
class _Use:
    by: str
    t: int
    stack: int


def used_too_early(trace: Trace) -> tuple[UsedTooEarly, ...]:
    """All of them, by rank; none with other devices, which may be waited for in other ways."""
    names = {row.name.partition(":")[0] for row in trace.rows(Device)}
    if not names <= {*ON_CPU}:
        return ()
    return tuple(found for part in trace.once(parts) for found in _of_rank(part.rank, part.trace))


def may_hold(trace: Trace, parameters: Iterable[int]) -> bool:
    """Whether numbers of one of these parameters may have been used too early."""
    held = [each.holds for each in trace.once(used_too_early)]
    return None in held or any(not each.isdisjoint(parameters) for each in held if each)


def _of_rank(rank: int, trace: Trace) -> list[UsedTooEarly]:
    handles = grouped(trace.rows(Handle), lambda row: row.span)
    called = [row for row in trace.rows(Collective) if not row.caller and row.span in handles]
    if not called:
        return []
    spans = {row.id: row for row in trace.rows(Span)}
    ended = {row.span: row.end for row in trace.rows(BackendWork)}
    used = grouped((row for row in trace.rows(Used) if row.direct), lambda row: row.span)
    early: dict[tuple[int, int, str], list[tuple[Collective, _Use, int]]] = {}
    for row in called:
        several = handles[row.span]
        if several[0].did != RETURNED or row.span not in spans:
            continue
        waited = several[1] if len(several) > 1 else Handle(t=LONGEST)
        begin = several[0].t
        uses = [_Use(each.name, each.t, each.stack) for each in used.get(row.span, ())]
        uses += _steps(trace, row, begin)
        first = min((each for each in uses if each.t > begin), key=lambda use: use.t, default=None)
        if first is not None and first.t < waited.t:
            key = row.stack, first.stack, first.by
            early.setdefault(key, []).append((row, first, waited.stack))
    return [_found(rank, spans, ended, those) for those in early.values()]


def _steps(trace: Trace, row: Collective, begin: int) -> list[_Use]:
    """The first step with a parameter whose gradient a collective has changed."""
    if row.holds != "gradients":
        return []
    return [
        _Use("optimizer.step()", step.t, step.stack)
        for each in trace.once(Acts).optimizers
        if {*row.parameters} & {*each.tensors}
        for step in each.steps
        if step.t > begin
    ][:1]


def _found(
    rank: int,
    spans: dict[int, Span],
    ended: dict[int, int],
    those: list[tuple[Collective, _Use, int]],
) -> UsedTooEarly:
    row, use, waited = those[0]
    running = [
        each
        for each, then, _ in those
        if each.span in ended and not _over(ended[each.span], then.t)
    ]
    name, step = spans[row.span].name.removesuffix(GOES_ON), spans[row.span].step
    return UsedTooEarly(
        rank, name, row.stack, use.by, use.stack, row.span, step, len(those), len(running), waited,
        _holds([each for each, _, _ in those]),
    )  # fmt: skip


def _holds(those: Sequence[Collective]) -> frozenset[int] | None:
    """The parameters of these; a single number is no parameter."""
    if any(not row.parameters and prod(row.shape) > 1 for row in those):
        return None
    return frozenset(each for row in those for each in row.parameters)


def _over(end: int, t: int) -> bool:
    return end not in (NONE, 0) and end <= t
