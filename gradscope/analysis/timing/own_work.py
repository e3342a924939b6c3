"""Own work of gradscope during a program, such as compiling, which no time includes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gradscope.analysis.lookups import Ids
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, Phase, Span
from gradscope.trace.trace import Trace

FOREVER = 1 << 61
"""Limit of times in nanoseconds, some seventy years, so that no difference overflows."""


@dataclass(frozen=True, slots=True)
class OwnWork:
    """One period of own work; nested ones are merged into the outermost."""

    name: str  # "gradscope compiles lstm forward"
    thread: int
    begin: int
    end: int


def own_work(trace: Trace) -> tuple[OwnWork, ...]:
    """Every finished period of gradscope's own work, by thread and time."""
    spans = trace.table(Span)
    chosen = np.flatnonzero((spans["phase"] == Phase.OWN_WORK) & (spans["end"] != NONE))
    order = chosen[
        np.lexsort((-spans["end"][chosen], spans["begin"][chosen], spans["thread"][chosen]))
    ]
    names = trace.texts(spans["name"][order])
    cells = (spans[name][order].tolist() for name in ("thread", "begin", "end"))
    found: list[OwnWork] = []
    for name, thread, begin, end in zip(names, *cells, strict=True):
        last = found[-1] if found and found[-1].thread == thread else None
        if last is None or begin >= last.end:
            found.append(OwnWork(name, thread, _cut(begin), _cut(max(begin, end))))
    return tuple(found)


def _cut(t: int) -> int:
    return min(max(t, -FOREVER), FOREVER)


class OwnWorkTimes:
    """Computes how much of any period was own work of gradscope."""

    def __init__(self, trace: Trace) -> None:
        self.stretches = own_work(trace)
        self._threads = {
            thread: _Sum([each for each in self.stretches if each.thread == thread])
            for thread in {each.thread for each in self.stretches}
        }

    def within(self, thread: Ids, begin: Ids, end: Ids) -> Ids:
        """The own work in each period, on its own thread."""
        found = np.zeros(len(begin), np.int64)
        for each in distinct(thread).tolist() if self._threads else ():
            if each in self._threads:
                own = thread == each
                found[own] = self._threads[each].between(begin[own], end[own])
        return found

    def on(self, threads: Iterable[int], begin: int, end: int) -> int:
        """The own work in one period, on any of these threads."""
        wanted = {*threads}
        some = [
            each
            for each in self.stretches
            if each.begin < end and begin < each.end and each.thread in wanted
        ]
        return int(_Sum(some).between(np.array([begin]), np.array([end]))[0]) if some else 0


class _Sum:
    """The total time that some periods cover up to any moment."""

    def __init__(self, stretches: list[OwnWork]) -> None:
        begin = np.array([each.begin for each in stretches], np.int64)
        end = np.array([each.end for each in stretches], np.int64)
        order = np.argsort(begin, kind="stable")
        begin, end = begin[order], np.maximum.accumulate(end[order])
        begin[1:] = np.maximum(begin[1:], end[:-1])  # threads may work at the same time
        self._begin, self._end = begin, np.maximum(begin, end)
        self._before = np.cumsum(self._end - begin) - (self._end - begin)

    def between(self, begin: Ids, end: Ids) -> Ids:
        took: Ids = np.maximum(self._until(end) - self._until(begin), 0)
        return took

    def _until(self, t: Ids) -> Ids:
        t = np.clip(t, -FOREVER, FOREVER)
        place = np.maximum(np.searchsorted(self._begin, t, side="right") - 1, 0)
        length = self._end[place] - self._begin[place]
        until: Ids = self._before[place] + np.clip(t - self._begin[place], 0, length)
        return until
