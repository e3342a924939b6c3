"""Determines which runs belong to which backward, where several threads run nodes.

# Note [Runs of several threads]
PyTorch runs the nodes of a device on a thread of its own, and a thread may run nodes of several
backwards in turn. Each run is recorded with PyTorch's number of its graph task. Which backward has
which number is not reported: all runs with the number of a backward are within the time of the
call, and one backward at most has runs on the thread of its caller. If several numbers are
possible, none is assigned, and the backward counts as not observed.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

import numpy as np
from numpy.typing import NDArray

from gradscope.watch.listener import BackwardRuns, RunColumns

Ints = NDArray[np.int64]

NO_RUN, UNKNOWN = -1, -2
"""Instead of the number of a graph task: it ran no node; several numbers are possible."""


def task_numbers(
    all_ran: Sequence[BackwardRuns], place: Ints, thread: Ints, task: Ints, others: Container[int]
) -> Ints:
    """PyTorch's number for each of these backwards, from the place, thread and task of each run.

    All runs of a backward have a place from its `since` to before its `last`. `others`: numbers of
    other backwards.
    """
    found = np.full(len(all_ran), NO_RUN)
    numbers, first, of = np.unique(task, return_index=True, return_inverse=True)
    last = np.zeros(len(numbers), np.int64)
    np.maximum.at(last, of, place)
    order = np.argsort(place[first], kind="stable")
    begins = place[first][order]
    # A negative number: the program called the node.
    used = {n for n, number in enumerate(numbers[order].tolist()) if number < 0 or number in others}
    threads = {*zip(of.tolist(), thread.tolist(), strict=True)}
    callers = {ran.thread for ran in all_ran if ran.outermost}
    for at in sorted(range(len(all_ran)), key=lambda at: (-all_ran[at].since, all_ran[at].last)):
        ran = all_ran[at]
        among = range(*np.searchsorted(begins, (ran.since, ran.last)).tolist())
        possible = [n for n in among if n not in used and last[order[n]] < ran.last]
        own = [n for n in possible if (order[n], ran.thread) in threads]
        if not own:
            own = [n for n in possible if not any((order[n], each) in threads for each in callers)]
        if len(own) == 1:
            used.add(own[0])
            found[at] = numbers[order[own[0]]]
        elif own:
            found[at] = UNKNOWN
    return found


def outermost(whose: Ints, begin: Ints, end: Ints) -> Ints:
    """The indices of runs, in order, that are not nested in another run of the same group."""
    if not len(begin):
        return np.zeros(0, np.int64)
    since = int(begin.min())
    apart = whose * (max(int(end.max()), int(begin.max())) - since + 1)
    until = np.maximum.accumulate(apart + np.maximum(end - since, 0))
    inside = np.append(False, (apart + begin - since)[1:] < until[:-1])
    inside[1:] &= whose[1:] == whose[:-1]
    return np.flatnonzero(~inside)


def outermost_on_threads(columns: Ints) -> Ints:
    """The runs of a backward, in order, without those nested in another run of their thread."""
    ran = RunColumns(*columns)
    _, thread = np.unique(ran.thread, return_inverse=True)
    order = np.lexsort((ran.begin, thread))
    kept = order[outermost(thread[order], ran.begin[order], ran.end[order])]
    return columns[:, kept[np.argsort(ran.begin[kept], kind="stable")]]


def has_columns(ran: BackwardRuns, columns: Ints) -> None:
    """Assign runs to a backward."""
    ran.columns, ran.part = columns, slice(0, columns.shape[1])


def of_columns(columns: Ints, thread: int = 0) -> BackwardRuns:
    """The runs in these columns, which need not be read. `thread`: of the caller."""
    ran = BackwardRuns(thread=thread)
    has_columns(ran, columns)
    ran.many = columns.shape[1]
    return ran
