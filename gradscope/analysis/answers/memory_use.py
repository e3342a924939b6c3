"""Memory held by saved tensors: at the peak, by backward, and what was never released."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gradscope.analysis.graph.memory import (
    HeldPeriods,
    OverTime,
    SavedRows,
    held,
    in_periods,
    periods,
)
from gradscope.analysis.graph.unreached import IdleGraphs
from gradscope.analysis.identity.backwards import backward_numbers, backwards
from gradscope.analysis.identity.sites import Site, site_of
from gradscope.analysis.program.acts import Acts, Done
from gradscope.analysis.program.modules import module_names
from gradscope.trace.schema import NONE, KeptAct, Node, Saved, Step, Tensor
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class Share:
    """The memory that one line or module holds."""

    name: str  # of the module; "" for a line
    site: Site
    bytes: int
    storages: int
    savers: tuple[tuple[str, str, int], ...]  # node's name, slot, how often


@dataclass(frozen=True, slots=True)
class HeldSpan:
    """The memory held before, during and after a backward."""

    backward: int
    called: Site
    step: int  # its number; NONE
    before: int
    most: int
    after: int


@dataclass(frozen=True, slots=True)
class LetGo:
    """A node that ran, and the memory it released."""

    node: int
    site: Site
    bytes: int
    left: int  # bytes still held then


@dataclass(frozen=True, slots=True)
class ForNothing:
    """Nodes of one line that no backward reached."""

    site: Site
    nodes: int
    left: int  # number still alive at the end; NONE: not recorded
    unknown: int  # number of nodes for which it is not known what they saved


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """The memory that saved tensors hold."""

    saved: int  # number of values
    peak: int
    peak_t: int
    peak_backward: int  # that released it, or most of it; NONE
    parameters: int  # bytes of the peak that belong to parameters
    lines: tuple[Share, ...]  # at the peak, largest first
    modules: tuple[Share, ...]
    spans: tuple[HeldSpan, ...]
    let_go: tuple[LetGo, ...]  # in the backward of the peak
    never: tuple[Share, ...]  # by the lines whose nodes still hold it
    never_bytes: int
    kept: tuple[Done[KeptAct], ...]  # what holds graphs of earlier steps
    for_nothing: tuple[ForNothing, ...]  # graphs that no backward used, most nodes first


def memory_use(trace: Trace) -> MemoryUse:
    all, saved = held(trace), trace.table(Saved)
    found = periods(all)
    over = in_periods(found)
    most = int(np.argmax(over.bytes)) if len(over.t) else 0
    peak, t = (int(over.bytes[most]), int(over.t[most])) if len(over.t) else (0, 0)
    held_then = (found.begin <= t) & ((found.end == NONE) | (found.end > t))
    at_peak, never = found.of(held_then), found.of(found.end == NONE)
    tasks = Counter(saved["task"][at_peak.row].tolist())
    tasks.pop(NONE, None)
    task = max(tasks, key=lambda each: (tasks[each], -each)) if tasks else NONE
    shares = _Shares(trace)
    return MemoryUse(
        saved=len(saved),
        peak=peak,
        peak_t=t,
        peak_backward=backward_numbers(trace).get(task, NONE),
        parameters=_of_parameters(trace, all, at_peak),
        lines=shares.by_line(at_peak),
        modules=shares.by_module(at_peak),
        spans=tuple(_spans(trace, over)),
        let_go=tuple(_let_go(trace, all, over, task)),
        never=shares.by_line(never),
        never_bytes=int(never.bytes.sum()),
        kept=tuple(_last_looks(trace)),
        for_nothing=tuple(_for_nothing(trace)),
    )


def _of_parameters(trace: Trace, all: SavedRows, held: HeldPeriods) -> int:
    tensors = trace.table(Tensor)
    leaf = tensors["leaf"] & tensors["requires_grad"] & (tensors["storage"] != NONE)
    theirs = np.isin(all.holder[held.row], tensors["storage"][leaf])
    return int(held.bytes[theirs].sum())


def _spans(trace: Trace, over: OverTime) -> Iterable[HeldSpan]:
    numbers = backward_numbers(trace)
    steps = trace.table(Step)
    for task in backwards(trace):
        if task.parent != NONE:
            continue
        before, end = over.at(task.begin), task.end
        first = int(np.searchsorted(over.t, task.begin))
        last = len(over.t) if end == NONE else int(np.searchsorted(over.t, end, side="right"))
        yield HeldSpan(
            backward=numbers[task.id],
            called=site_of(trace, task.stack),
            step=steps.row(task.step).number if steps.has(task.step) else NONE,
            before=before,
            most=max(before, int(over.bytes[first:last].max(initial=0))),
            after=NONE if end == NONE else over.at(end),
        )


def _let_go(trace: Trace, all: SavedRows, over: OverTime, task: int) -> Iterable[LetGo]:
    """The nodes of a backward that released something, in the order in which they ran."""
    saved = trace.table(Saved)
    rows = np.flatnonzero(saved["task"] == task) if task != NONE else np.array([], np.int64)
    rows = rows[np.lexsort((saved["node"][rows], all.end[rows]))]
    freed: dict[tuple[int, int], int] = {}
    for node, t in zip(saved["node"][rows].tolist(), all.end[rows].tolist(), strict=True):
        freed.setdefault((node, t), 0)
    nodes, left = trace.table(Node), None
    for node, t in freed:
        after = over.at(t)
        before = over.before(t) if left is None else left
        left = after
        if before != after:
            stack = nodes.row(node).stack if nodes.has(node) else NONE
            yield LetGo(node, site_of(trace, stack), before - after, after)


def _last_looks(trace: Trace) -> Iterable[Done[KeptAct]]:
    """The last record of each name that held graphs."""
    last: dict[tuple[object, ...], Done[KeptAct]] = {}
    for act in trace.once(Acts).of(KeptAct):
        facts = act.facts
        last[facts.name, facts.attribute, facts.container, act.stack] = act
    return sorted(last.values(), key=lambda act: act.t)


def _for_nothing(trace: Trace) -> Iterable[ForNothing]:
    """The nodes that no backward reached, by line."""
    graphs = trace.once(IdleGraphs)
    found: dict[str, ForNothing] = {}
    rows = np.flatnonzero(~graphs.reached)
    columns = (graphs.stack, graphs.many, graphs.died, graphs.is_told)
    for stack, many, died, told in zip(*(c[rows].tolist() for c in columns), strict=True):
        site = site_of(trace, stack)
        last = found.get(site.place, ForNothing(site, 0, 0 if graphs.sees_ends else NONE, 0))
        found[site.place] = ForNothing(
            last.site,
            last.nodes + many,
            last.left + many * (died == NONE) if graphs.sees_ends else NONE,
            last.unknown + many * (not told),
        )
    return sorted(found.values(), key=lambda each: -each.nodes)


class _Shares:
    """Sums up saved values by the lines and modules of their nodes."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._modules = module_names(trace)

    def by_line(self, held: HeldPeriods) -> tuple[Share, ...]:
        return self._added_up(held, by_module=False)

    def by_module(self, held: HeldPeriods) -> tuple[Share, ...]:
        found = self._added_up(held, by_module=True)
        return found if any(each.name for each in found) else ()

    def _added_up(self, held: HeldPeriods, *, by_module: bool) -> tuple[Share, ...]:
        rows = held.row
        saved, nodes = self._trace.table(Saved), self._trace.table(Node)
        bytes: dict[tuple[str, str], int] = defaultdict(int)
        many: Counter[tuple[str, str]] = Counter()
        sites: dict[tuple[str, str], Site] = {}
        savers: dict[tuple[str, str], Counter[tuple[str, str]]] = defaultdict(Counter)
        places = nodes.positions(saved["node"][rows])
        columns = (nodes[name][places].tolist() for name in ("name", "stack", "module"))
        slots = saved["slot"][rows].tolist()
        sizes = held.bytes.tolist()
        known = (places != NONE).tolist()
        for there, name, stack, module, slot, size in zip(
            known, *columns, slots, sizes, strict=True
        ):
            site = site_of(self._trace, stack) if there else Site()
            named = self._modules.get(module, "") if there and by_module else ""
            key = (named, "") if by_module else ("", site.place)
            bytes[key] += size
            many[key] += 1
            sites.setdefault(key, Site() if by_module else site)
            savers[key][(self._trace.text(name) if there else "?", self._trace.text(slot))] += 1
        order = sorted(bytes, key=lambda key: (-bytes[key], key))
        return tuple(
            Share(
                key[0], sites[key], bytes[key], many[key],
                tuple((*saver, n) for saver, n in savers[key].most_common()),
            )
            for key in order
        )  # fmt: skip
