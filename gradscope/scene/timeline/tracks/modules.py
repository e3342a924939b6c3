"""When modules ran: from the first to the last operation or node of each, without gaps.

A trace records the module of each operation and node, not when a module was called. So two calls
of one module in a row are one slice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradscope.analysis.lookups import Ids
from gradscope.analysis.program.modules import DEEPEST, module_names
from gradscope.scene.timeline.tracks.slices import Slices, Sort, TrackWords
from gradscope.trace.schema import NONE, Module
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class RunsInOrder:
    """Operations or nodes in the order in which they started; equal-length columns."""

    module: Ids
    within: Ids  # thread and backward as one number; no slice crosses these
    thread: Ids
    begin: Ids
    end: Ids
    step: Ids


def module_slices(trace: Trace, ran: RunsInOrder, ending: str, words: TrackWords) -> Slices:
    """One slice for each uninterrupted run of a module and its submodules."""
    chains = _Chains(trace)
    rows: list[tuple[int, int, int]] = []  # the module, and the places of its first and last
    changes = np.ones(len(ran.module), bool)
    changes[1:] = (ran.module[1:] != ran.module[:-1]) | (ran.within[1:] != ran.within[:-1])
    starts = np.flatnonzero(changes)
    open_modules: list[tuple[int, int]] = []  # and where each began
    within = NONE
    for start, module, inside in zip(
        starts.tolist(), ran.module[starts].tolist(), ran.within[starts].tolist(), strict=True
    ):
        chain = chains.of(module)
        same = 0
        while (
            inside == within
            and same < min(len(chain), len(open_modules))
            and open_modules[same][0] == chain[same]
        ):
            same += 1
        rows += [(each, first, start - 1) for each, first in open_modules[same:]]
        open_modules = open_modules[:same] + [(each, start) for each in chain[same:]]
        within = inside
    rows += [(each, first, len(ran.module) - 1) for each, first in open_modules]
    return _slices(trace, rows, ran, ending, words)


class _Chains:
    """The modules around a module, outermost first, and the module itself."""

    def __init__(self, trace: Trace) -> None:
        self._parents = {module.id: module.parent for module in trace.rows(Module)}
        self._known: dict[int, tuple[int, ...]] = {}

    def of(self, module: int) -> tuple[int, ...]:
        if module not in self._known:
            chain: list[int] = []
            at = module
            while at in self._parents and at not in chain and len(chain) < DEEPEST:
                chain.append(at)
                at = self._parents[at]
            self._known[module] = tuple(reversed(chain))
        return self._known[module]


def _slices(
    trace: Trace, rows: list[tuple[int, int, int]], ran: RunsInOrder, ending: str, words: TrackWords
) -> Slices:
    names = module_names(trace)
    types = {module.id: module.type for module in trace.rows(Module)}
    titles = {id: names[id] or types[id] or "(root)" for id in names}
    module, first, last = np.array(rows, np.int64).reshape(-1, 3).T
    return Slices(
        thread=ran.thread[first],
        begin=ran.begin[first],
        end=_latest(ran, first, last),
        sort=np.full(len(rows), int(Sort.MODULE)),
        name=words.column(f"{titles[id]}{ending}" for id in module.tolist()),
        of=np.full(len(rows), NONE),
        about={
            "module": words.column(types[id] for id in module.tolist()),
            "step": ran.step[first],
        },
    )


def _latest(ran: RunsInOrder, first: Ids, last: Ids) -> Ids:
    """The last moment in each of these ranges at which something is known to have run."""
    known = np.maximum(ran.begin, ran.end)
    rows = zip(first.tolist(), last.tolist(), strict=True)
    return np.array([known[begin : until + 1].max() for begin, until in rows], np.int64)
