"""Spans and marks of the program."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradscope.analysis.lookups import Ids, member
from gradscope.trace.schema import NONE, Collective, Mark, Phase, ProcessGroup, Span
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class NamedSpan:
    """A named period of time, or an optimizer step."""

    id: int
    name: str
    phase: Phase | None  # None: unknown to this version
    thread: int
    step: int
    begin: int
    end: int  # NONE when it did not end
    exchanged: str = ""  # by a collective: "[3, 4] float32, 2 ranks of mesh_data"

    @property
    def title(self) -> str:
        """Its name, with what it exchanged."""
        return f"{self.name} {self.exchanged}".strip()


@dataclass(frozen=True, slots=True)
class NamedMoment:
    """A moment that the program marked."""

    id: int
    name: str
    note: str
    thread: int
    step: int
    t: int


def spans(trace: Trace) -> tuple[NamedSpan, ...]:
    """All spans, in the order in which they started; outer ones first."""
    return trace.once(_spans)


def _spans(trace: Trace) -> tuple[NamedSpan, ...]:
    table = trace.table(Span)
    order = np.lexsort((table["id"], table["begin"]))
    groups = {row.id: row for row in trace.rows(ProcessGroup)}
    exchanged = {row.span: _in_words(row, groups.get(row.group)) for row in trace.rows(Collective)}
    return tuple(
        NamedSpan(
            row.id, row.name, member(Phase, row.phase), row.thread, row.step, row.begin, row.end,
            exchanged.get(row.id, ""),
        )
        for row in table.take(order)
    )  # fmt: skip


def _in_words(row: Collective, group: ProcessGroup | None) -> str:
    sizes = f"[{', '.join(map(str, row.shape))}]" if row.shape else "scalar"
    among = "" if group is None else _ranks(group)
    return ", ".join(part for part in (f"{sizes} {row.dtype}" * bool(row.dtype), among) if part)


def _ranks(group: ProcessGroup) -> str:
    many = len(group.members)
    return f"{many} rank{'s' * (many != 1)} of {group.described}"


def marks(trace: Trace) -> tuple[NamedMoment, ...]:
    table = trace.table(Mark)
    return tuple(
        NamedMoment(row.id, row.name, row.note, row.thread, row.step, row.t)
        for row in table.take(np.lexsort((table["id"], table["t"])))
    )


def spans_at(trace: Trace, thread: int, t: int) -> tuple[NamedSpan, ...]:
    """The spans a thread was in at a moment, outermost first."""
    threads, begins, ends = trace.once(_columns)
    inside = (threads == thread) & (begins <= t) & ((ends == NONE) | (t <= ends))
    known = spans(trace)
    return tuple(known[place] for place in np.flatnonzero(inside).tolist())


def _columns(trace: Trace) -> tuple[Ids, Ids, Ids]:
    """Thread, begin and end of each span, in the order of `spans`."""
    rows = [(each.thread, each.begin, each.end) for each in spans(trace)]
    thread, begin, end = np.array(rows, np.int64).reshape(-1, 3).T
    return thread, begin, end
