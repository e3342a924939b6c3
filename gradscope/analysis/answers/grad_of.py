"""The history of a tensor's gradient: what sent, changed, cleared and used it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np

from gradscope.analysis.identity.backwards import backward_numbers
from gradscope.analysis.identity.sharding import Sharding
from gradscope.analysis.identity.sites import Site, site_of, site_of_row
from gradscope.analysis.lookups import member
from gradscope.analysis.program.acts import Acts, Done, by_of, moved_by
from gradscope.analysis.program.training import Training
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import (
    NONE,
    Accumulate,
    Accumulation,
    ActFacts,
    BufferAdded,
    Capture,
    ClipAct,
    Decrement,
    Edge,
    GradSetAct,
    GradZeroedAct,
    GraphTask,
    HookBegin,
    HookEnd,
    HookKind,
    Node,
    Place,
    ScaledStepAct,
    StepAct,
    Tensor,
    UnscaleAct,
    Value,
    ZeroGradAct,
)  # fmt: skip
from gradscope.trace.trace import Trace

NOT_KNOWN = math.nan


class GradAct(StrEnum):
    """Kinds of events in the history of a gradient."""

    BEGAN = "began"  # the backward began at this tensor
    SENT = "sent"
    SUMMED = "summed"
    HOOK = "hook"
    KEPT = "kept"  # accumulated in .grad
    RETURNED = "returned"  # by autograd.grad
    CLEARED = "cleared"
    WRITTEN = "written"
    CLIPPED = "clipped"
    UNSCALED = "unscaled"
    STEPPED = "stepped"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Happening:
    """One event in the history of a gradient."""

    part: GradAct
    t: int
    site: Site
    backward: int = NONE  # its number
    node: int = NONE
    name: str = ""  # of the node, hook, optimizer, function
    how: str = ""
    norm: float = NOT_KNOWN  # of the gradient afterwards
    before: float = NOT_KNOWN
    bad: str = ""  # values that are not finite, as in "56 NaN, 2 Inf"; the norm is of the rest
    moved: tuple[float, float] = (NOT_KNOWN, NOT_KNOWN)  # norm of an update; of the tensor before
    times: int = 1
    facts: ActFacts | None = None

    @property
    def likeness(self) -> tuple[object, ...]:
        """The fields that are compared to tell whether two iterations are the same."""
        return self.part, self.site.place, self.name, self.how, self.times, bool(self.bad)


@dataclass(frozen=True, slots=True)
class Round:
    """The events from one step of an optimizer to the next, and in how many iterations."""

    happenings: tuple[Happening, ...]
    times: int = 1
    backwards: tuple[int, ...] = ()  # their numbers
    norms: tuple[float, ...] = ()  # of .grad after each iteration, if known and finite
    bad: tuple[tuple[int, str], ...] = ()  # backwards that left NaN or Inf, and their counts


@dataclass(frozen=True, slots=True)
class GradStory:
    """The history of a tensor's gradient."""

    tensor: int
    title: str
    leaf: bool
    nodes: tuple[int, ...]  # that receive its gradient
    backwards: int
    brought: int  # number of backwards that sent it something
    rounds: tuple[Round, ...]
    could_send: tuple[Happening, ...] = ()  # nodes with an edge, if the engine was not recorded


def grad_story(trace: Trace, tensor: int) -> GradStory:
    told = _Told(trace, tensor)
    happened = sorted((*told.of_engine(), *told.of_program()), key=lambda each: each.t)
    if trace.meta.get("level") != "graph":
        happened = [*_passed_over(happened)]
    brought = {e.backward for e in happened if e.part in _ARRIVALS and e.how != UNDEFINED}
    return GradStory(
        tensor=tensor,
        title=trace.once(Training).title(tensor),
        leaf=told.leaf,
        nodes=told.nodes,
        backwards=len(trace.table(GraphTask)),
        brought=len(brought - {NONE}),
        rounds=_folded(_rounds(happened)),
        could_send=tuple(told.could_send()),
    )


_ARRIVALS = (GradAct.BEGAN, GradAct.SENT, GradAct.KEPT, GradAct.RETURNED)
_ENDS = (GradAct.STEPPED, GradAct.SKIPPED)
UNDEFINED, PASSED_OVER = "undefined", "passed over"
"""`how` of a node that returns None, and of a step that finds None in `.grad`."""


def _passed_over(happened: list[Happening]) -> Iterator[Happening]:
    """The same events, with steps marked that skipped the tensor."""
    empty = False
    for each in happened:
        if each.part in (GradAct.KEPT, GradAct.WRITTEN):
            empty = each.how == "to None"
        elif each.part is GradAct.CLEARED and each.how:
            empty = each.how == "to None" or empty
        empty &= not isinstance(each.facts, StepAct) or each.facts.none > 0
        passes = empty and each.part is GradAct.STEPPED and not each.moved[0] > 0
        yield replace(each, how=PASSED_OVER) if passes else each


def _rounds(happened: list[Happening]) -> list[list[Happening]]:
    """Events cut into iterations: after each step or, without steps, before each backward."""
    stepped = any(each.part in _ENDS for each in happened)
    rounds: list[list[Happening]] = [[]]
    for each in happened:
        last = rounds[-1]
        if not stepped and last and each.backward != last[-1].backward != NONE:
            rounds.append([])
        rounds[-1].append(each)
        if each.part in _ENDS:
            rounds.append([])
    return [each for each in rounds if each]


def _folded(rounds: list[list[Happening]]) -> tuple[Round, ...]:
    """Iterations, with equal ones in a row merged into the first."""
    found: list[Round] = []
    for happened in map(_merged, rounds):
        numbers = tuple(dict.fromkeys(h.backward for h in happened if h.backward != NONE))
        norms = tuple(
            h.norm for h in happened if h.part is GradAct.KEPT and not (h.bad or math.isnan(h.norm))
        )
        bad = tuple((h.backward, h.bad) for h in happened if h.part is GradAct.KEPT and h.bad)
        pattern = [each.likeness for each in happened]
        if found and [each.likeness for each in found[-1].happenings] == pattern:
            last = found[-1]
            found[-1] = replace(
                last,
                times=last.times + 1,
                backwards=last.backwards + numbers,
                norms=last.norms + norms,
                bad=last.bad + bad,
            )
        else:
            found.append(Round(tuple(happened), 1, numbers, norms, bad))
    return tuple(found)


def _merged(happened: list[Happening]) -> list[Happening]:
    """Events with gradients from nodes of one name and line merged, and their additions."""
    found: dict[object, Happening] = {}
    for number, each in enumerate(happened):
        several = each.part in (GradAct.SENT, GradAct.SUMMED)
        key = (each.likeness, each.backward) if several else number
        before = found.get(key)
        found[key] = (
            each
            if before is None
            else replace(
                before,
                times=before.times + 1,
                norm=each.norm if each.part is GradAct.SUMMED else NOT_KNOWN,
                bad=each.bad
                if each.part is GradAct.SUMMED or each.bad == before.bad
                else "in some",
            )
        )
    return list(found.values())


_Look = tuple[float, str]  # a norm, and the values that are not finite
_UNSEEN: _Look = NOT_KNOWN, ""


def _not_finite(nan: int, inf: int) -> str:
    return ", ".join(f"{many:,} {name}" for many, name in ((nan, "NaN"), (inf, "Inf")) if many)


class _Told:
    """The events of a trace about one tensor's gradient."""

    def __init__(self, trace: Trace, tensor: int) -> None:
        self.trace = trace
        self.tensor = tensor
        self.leaf = bool(trace.table(Tensor).row(tensor).leaf)
        self.own = trace.once(Sharding).held_in(tensor)  # leaves that receive its gradient
        inputs = trace.table(Node).ragged("inputs")
        places = distinct(inputs.owners[np.isin(inputs.values, self.own)])
        self._rows = {row.id: row for row in trace.table(Node).take(places)}
        self.nodes = tuple(self._rows)
        self._numbers, self._acts = backward_numbers(trace), trace.once(Acts)

    # The engine ----------------------------------------------------------------------------------

    def of_engine(self) -> Iterator[Happening]:
        """Events of the engine by time: gradients sent, changed and kept."""
        yield from self._began()
        for node in self.nodes:
            norms: dict[int, _Look] = {}  # of the gradient on its way, by task
            kinds = (Decrement, BufferAdded, HookBegin, HookEnd, Accumulate, Capture)
            under_way: list[HookBegin] = []
            for event in self.trace.events(*kinds, node=node):
                if isinstance(event, HookBegin):
                    under_way.append(event)
                    continue
                if isinstance(event, HookEnd):
                    begin = under_way.pop() if under_way else None
                    happened = self._hook(event, begin, norms)
                else:
                    happened = self._arrival(event, norms)
                if happened is not None:
                    norms[event.task] = happened.norm, happened.bad
                    yield happened

    def _began(self) -> Iterator[Happening]:
        for task in self.trace.rows(GraphTask):
            for root in {*task.roots}.intersection(self.nodes):
                norm, bad = self._norm(Place.SEED, root, 0, task.id)
                number, site = self._numbers[task.id], site_of(self.trace, task.stack)
                yield Happening(GradAct.BEGAN, task.begin, site, number, root, norm=norm, bad=bad)

    def _arrival(self, event: Any, norms: dict[int, _Look]) -> Happening | None:
        """A gradient that was sent, added, kept or captured."""
        number, node = self._numbers.get(event.task, NONE), event.node
        site = site_of_row(self.trace, GraphTask, event.task)
        if isinstance(event, Decrement):
            if self._edges.get((event.source, event.index)) not in self._places(node):
                return None
            look = self._norm(Place.NODE_OUTPUT, event.source, event.index, event.task)
            how = "" if event.task in self._arrived else UNDEFINED
            return replace(self._sent(event.source, event.t, number, *look), how=how)
        if isinstance(event, BufferAdded):
            norm, bad = self._norm(Place.BUFFER, node, event.input_nr, event.task)
            how = "in place" if event.in_place else "into a new tensor"
            return Happening(
                GradAct.SUMMED, event.t, site, number, node, how=how, norm=norm, bad=bad
            )
        if isinstance(event, Capture):
            norm, bad = norms.get(event.task, _UNSEEN)
            return Happening(GradAct.RETURNED, event.t, site, number, node, norm=norm, bad=bad)
        kind = member(Accumulation, event.how)
        how = "" if kind is None or not self._how_is_known else kind.name.lower().replace("_", " ")
        norm, bad = self._norm(Place.GRAD, node, 0, event.task)
        return Happening(GradAct.KEPT, event.t, site, number, node, how=how, norm=norm, bad=bad)

    def _hook(
        self, end: HookEnd, begin: HookBegin | None, norms: dict[int, _Look]
    ) -> Happening | None:
        kind = member(HookKind, end.hook)
        if kind is HookKind.POST and not self.leaf:  # it receives the node's outputs
            return None
        before = norms.get(end.task, _UNSEEN)
        after = self._norm(Place.HOOK, end.node, 0, end.task) if end.replaced else before
        return Happening(
            GradAct.HOOK, end.t, site_of(self.trace, begin.stack if begin else NONE),
            self._numbers.get(end.task, NONE), end.node, begin.name if begin else "",
            "replaced it" if end.replaced else "left it unchanged", after[0], before[0], after[1],
        )  # fmt: skip

    def _norm(self, place: Place, node: int, index: int, task: int) -> _Look:
        return self._norms.get((place, node, index, task), _UNSEEN)

    @cached_property
    def _norms(self) -> dict[tuple[int, int, int, int], _Look]:
        """Norms by place, node, index and task; the last one where there are several."""
        table = self.trace.table(Value)
        wanted = np.isin(table["node"], [*self.nodes, *(source for source, _ in self._edges)])
        names = ("place", "node", "index", "task", "norm", "nan", "posinf", "neginf")
        columns = (table[name][wanted].tolist() for name in names)
        return {
            (p, n, i, t): (norm, _not_finite(nan, over + under))
            for p, n, i, t, norm, nan, over, under in zip(*columns, strict=True)
        }

    @cached_property
    def _edges(self) -> dict[tuple[int, int], int]:
        """The input of its node that each edge to one of these nodes leads to."""
        table = self.trace.table(Edge)
        leads = np.isin(table["next"], self.nodes)
        columns = (table[name][leads].tolist() for name in ("node", "index", "input_nr"))
        return {(node, index): input_nr for node, index, input_nr in zip(*columns, strict=True)}

    def _places(self, node: int) -> set[int | None]:
        """The inputs of nodes that receive this tensor's gradient."""
        inputs = self._rows[node].inputs
        return {place for place, each in enumerate(inputs) if each in self.own}

    @cached_property
    def _arrived(self) -> set[int]:
        """Backwards that left a gradient there, or for which that is not known."""
        kept = {e.task for e in self.trace.events(Accumulate, Capture) if e.node in self._rows}
        tasks = self.trace.rows(GraphTask)
        return kept | {e.id for e in tasks if not (self.leaf and e.accumulate_grad) or e.error}

    @cached_property
    def _how_is_known(self) -> bool:
        return "accumulate.how" not in self.trace.meta.get("absent", ())

    def could_send(self) -> Iterator[Happening]:
        """Nodes with an edge to it, if gradients along edges were not recorded."""
        if len(self.trace.table(Decrement)):
            return
        for (source, _), input_nr in self._edges.items():
            if any(input_nr in self._places(node) for node in self.nodes):
                yield self._sent(source, 0, NONE, *_UNSEEN)

    def _sent(self, source: int, t: int, backward: int, norm: float, bad: str) -> Happening:
        nodes = self.trace.table(Node)
        name, stack = "", NONE
        if nodes.has(source):
            row = nodes.row(source)
            name, stack = row.name, row.stack
        site = site_of(self.trace, stack)
        return Happening(GradAct.SENT, t, site, backward, source, name, norm=norm, bad=bad)

    # The program -----------------------------------------------------------------------------

    def of_program(self) -> Iterator[Happening]:
        """Events of the program, by time."""
        holders = {
            each.built.id: each for each in self._acts.optimizers if self.tensor in each.tensors
        }
        for act in self._acts.of(*_ACTS):
            if isinstance(act.facts, ScaledStepAct) and not act.facts.skipped:
                continue
            its = self.tensor in act.tensors or act.of in holders
            if not its and not (isinstance(act.facts, ClipAct) and not act.tensors and self.leaf):
                continue
            holder = holders.get(act.of)
            yield Happening(
                _part(act), act.t, self._acts.site(act), facts=act.facts, how=_how(act),
                name=by_of(act.facts) or (holder.type if holder else ""),
                moved=moved_by(act, holder, self.tensor),
            )  # fmt: skip


_ACTS: dict[type[ActFacts], GradAct] = {
    ZeroGradAct: GradAct.CLEARED, GradSetAct: GradAct.CLEARED, GradZeroedAct: GradAct.CLEARED,
    ClipAct: GradAct.CLIPPED, UnscaleAct: GradAct.UNSCALED,
    StepAct: GradAct.STEPPED, ScaledStepAct: GradAct.SKIPPED,
}  # fmt: skip


def _part(act: Done[ActFacts]) -> GradAct:
    if isinstance(act.facts, GradSetAct) and act.facts.to != "None":
        return GradAct.WRITTEN
    if isinstance(act.facts, GradZeroedAct) and act.facts.by in ("mul_", "div_"):
        return GradAct.WRITTEN
    return _ACTS[type(act.facts)]


def _how(act: Done[ActFacts]) -> str:
    if isinstance(act.facts, ZeroGradAct):
        return "to None" if act.facts.set_to_none else "to zeros"
    if isinstance(act.facts, GradSetAct):
        return f"to {'None' if act.facts.to == 'None' else 'a tensor'}"
    return ""
