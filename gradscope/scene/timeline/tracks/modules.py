"""When modules ran: from the first to the last operation or node of each, without gaps.

A trace records the module of each operation and node, not when a module was called. So two calls
of one module in a row are one slice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradscope.analysis.graph.selection import leaf_nodes
from gradscope.analysis.lookups import Ids
from gradscope.analysis.program.modules import DEEPEST, module_names
from gradscope.analysis.timing.durations import Runs, look_up
from gradscope.analysis.timing.phases import ProgramPart, ops_of
from gradscope.scene.timeline.tracks.slices import Slices, Sort, TrackWords
from gradscope.trace.schema import NONE, Module, Node, Op
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class RunsInOrder:
    """Operations or nodes in the order in which they started; equal-length columns."""

    module: Ids
    within: Ids  # thread, and step or backward, as one number; no slice crosses these
    thread: Ids
    begin: Ids
    end: Ids
    step: Ids


@dataclass(frozen=True, slots=True)
class ModuleRuns:
    """Uninterrupted runs of modules and their submodules; equal-length columns."""

    module: Ids
    thread: Ids
    begin: Ids
    end: Ids
    step: Ids


def without_ends(trace: Trace) -> bool:
    """Whether only the starts of operations were recorded."""
    return "op.end" in trace.meta.get("absent", ())


def forward_in_order(trace: Trace) -> RunsInOrder:
    """The operations of the forward pass. Those of hooks and optimizers belong to no module."""
    table = trace.table(Op)
    rows = np.flatnonzero(ops_of(trace, ProgramPart.FORWARD))
    rows = rows[np.lexsort((table["begin"][rows], table["thread"][rows]))]
    thread, begin = table["thread"][rows], table["begin"][rows]
    end = begin if without_ends(trace) else table["end"][rows]
    step = table["step"][rows]
    return RunsInOrder(table["module"][rows], _numbered(thread, step), thread, begin, end, step)


def backward_in_order(trace: Trace, runs: Runs) -> RunsInOrder:
    """The nodes that ran, without leaves: a leaf belongs to the sender of its gradient."""
    inner = np.flatnonzero(~np.isin(runs.node, leaf_nodes(trace)))
    inner = inner[np.lexsort((runs.task[inner], runs.thread[inner]))]
    thread, node, nodes = runs.thread[inner], runs.node[inner], trace.table(Node)
    return RunsInOrder(
        look_up(nodes, "module", node),
        _numbered(thread, runs.task[inner]),
        thread,
        runs.begin[inner],
        runs.end[inner],
        look_up(nodes, "step", node),
    )


def _numbered(*columns: Ids) -> Ids:
    """A number for each distinct row of these columns."""
    if not len(columns[0]):
        return columns[0]
    _, numbers = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    return numbers.reshape(-1).astype(np.int64)


def module_slices(trace: Trace, runs: ModuleRuns, ending: str, words: TrackWords) -> Slices:
    """One slice for each of these runs."""
    names = module_names(trace)
    types = {module.id: module.type for module in trace.rows(Module)}
    titles = {id: names[id] or types[id] or "(root)" for id in names}
    module = runs.module.tolist()
    return Slices(
        thread=runs.thread,
        begin=runs.begin,
        end=runs.end,
        sort=np.full(len(module), int(Sort.MODULE)),
        name=words.column(f"{titles[id]}{ending}" for id in module),
        of=np.full(len(module), NONE),
        about={"module": words.column(types[id] for id in module), "step": runs.step},
    )


def module_runs(trace: Trace, ran: RunsInOrder) -> ModuleRuns:
    """The uninterrupted runs of each module and its submodules."""
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
    module, first, last = np.array(rows, np.int64).reshape(-1, 3).T
    return ModuleRuns(
        module, ran.thread[first], ran.begin[first], _latest(ran, first, last), ran.step[first]
    )


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


def _latest(ran: RunsInOrder, first: Ids, last: Ids) -> Ids:
    """The last moment in each of these ranges at which something is known to have run."""
    known = np.maximum(ran.begin, ran.end)
    rows = zip(first.tolist(), last.tolist(), strict=True)
    return np.array([known[begin : until + 1].max() for begin, until in rows], np.int64)
