"""Conditions of breakpoints, and the moments at which they hold."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.analysis.state.moments import Moments
from gradscope.analysis.state.state import TraceStretches
from gradscope.errors import UnknownNameError
from gradscope.trace.schema import NONE, Dependency, NodeBegin, NodeEnd, Op, Push, Value

if TYPE_CHECKING:
    from gradscope.analysis.lookups import Ids
    from gradscope.analysis.state.breakpoints.language import Condition
    from gradscope.trace.schema.declare import Row
    from gradscope.trace.trace import Trace

COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip

STATISTICS = (
    "norm", "rms", "mean", "min", "max", "nan", "inf", "posinf", "neginf", "zero",
)  # fmt: skip
TIMES = {
    "waited": "how long a starting node waited in its queue",
    "took": "how long a node or operation took, including what ran inside it",
}
FIELDS = {
    "t": "time since the start of the recording",
    "norm": "and rms, mean, min, max: of the values recorded there, at least one of them",
    "nan": "and inf, posinf, neginf, zero: how many of these are among the values",
    **TIMES,
    "count": "number of gradients that a starting node waited for",
}
"""Fields besides the columns of events, such as remaining, length, depth, queue, new."""


def holding(trace: Trace, condition: Condition, moments: Ids) -> Ids:
    """The moments at which the condition holds."""
    compare = COMPARED[condition.comparison]
    name, value = condition.field, condition.value
    if name in STATISTICS:
        holds = np.isin(moments, _with_statistics(trace, name, compare, value))
    else:
        values = _values(trace, name)[moments]
        with np.errstate(invalid="ignore"):
            holds = ~np.isnan(values) & compare(values, value)
    return moments[holds]


def _with_statistics(trace: Trace, name: str, compare: Callable[..., Any], value: float) -> Ids:
    """The moments with recorded values for which it holds."""
    rows = trace.table(Value)
    if not len(rows):
        raise UnknownNameError(f"there is no {name}: values were not recorded; use --level values")
    if name == "inf":
        column = np.asarray(rows["posinf"]) + np.asarray(rows["neginf"])
    else:
        column = np.asarray(rows[name])
    with np.errstate(invalid="ignore"):
        at = np.flatnonzero(compare(column, value))
    moments = trace.once(Moments)
    of_seq, of_op = _of_seq(trace, np.asarray(rows["seq"])[at]), np.asarray(rows["op"])[at]
    position = trace.table(Op).positions(of_op) if len(trace.table(Op)) else np.full(len(at), NONE)
    of_ops = moments.of(Op)[position[(of_seq == NONE) & (position != NONE)]]
    return np.concatenate([of_seq[of_seq != NONE], of_ops])


def _of_seq(trace: Trace, seqs: Ids) -> Ids:
    """The moments of events; NONE if there is none with that `seq`."""
    known, moments = trace.order().seq, trace.once(Moments).of_events
    if not len(known):
        return np.full(len(seqs), NONE, np.int64)
    place = np.minimum(np.searchsorted(known, seqs), len(known) - 1)
    return np.where(known[place] == seqs, moments[place], NONE)


def _values(trace: Trace, name: str) -> np.ndarray:
    """A field of all moments; NaN where it does not exist."""
    moments = trace.once(Moments)
    found = np.full(len(moments), np.nan)
    if name == "t":
        return moments.t.astype(float)
    if name == "waited":
        begun = trace.once(TraceStretches).engine.next_of(Push, NodeBegin)
        there = begun < len(found)
        found[begun[there]] = moments.t[begun[there]] - moments.t[moments.of(Push)[there]]
    elif name == "took":
        _took(trace, found)
    elif name == "count":
        counted = np.asarray(trace.table(Dependency)["count"], float)
        begun = trace.once(TraceStretches).engine.next_of(Dependency, NodeBegin)
        found[begun[begun < len(found)]] = counted[begun < len(found)]
    known = name in (*TIMES, "count")
    for kind in moments.kinds:
        data = trace.table(kind).data.get(name)
        if isinstance(data, np.ndarray) and name not in trace.table(kind).text_columns:
            known = True
            _put(trace, found, kind, data.astype(float))
    if not known:
        some = ", ".join(FIELDS)
        raise UnknownNameError(
            f"there is no field {name!r}: use {some}, or a column of an event such as "
            "remaining or length"
        )
    return found


def _put(trace: Trace, into: np.ndarray, kind: type[Row], values: np.ndarray) -> None:
    moments = trace.once(Moments).of(kind)
    into[moments[moments != NONE]] = values[moments != NONE]


def _took(trace: Trace, into: np.ndarray) -> None:
    moments = trace.once(Moments)
    ended = trace.once(TraceStretches).engine.next_of(NodeBegin, NodeEnd)
    there = ended < len(into)
    begun = moments.of(NodeBegin)[there]
    into[begun] = moments.t[ended[there]] - moments.t[begun]
    begin, end = (np.asarray(trace.table(Op)[name]) for name in ("begin", "end"))
    _put(trace, into, Op, np.where(end != NONE, end - begin, np.nan))
