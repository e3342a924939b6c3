"""The kinds of breakpoints, and the moments of each. A kind is one function here."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gradscope.analysis.nonfinite.births import births
from gradscope.analysis.report import inspect
from gradscope.analysis.state.breakpoints import names
from gradscope.analysis.state.moments import Moments
from gradscope.analysis.state.shown_by import moment_of, moment_of_finding
from gradscope.errors import UnknownNameError, UsageError
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import (
    NONE,
    Accumulate,
    Act,
    Error,
    HookBegin,
    HookEnd,
    Mark,
    Node,
    NodeBegin,
    Op,
    SavedReleased,
    Step,
    TaskBegin,
    Tensor,
    Value,
    Version,
)
from gradscope.trace.schema.declare import EVENTS, Event, Row

if TYPE_CHECKING:
    from gradscope.analysis.findings import Finding
    from gradscope.analysis.lookups import Ids
    from gradscope.trace.trace import Trace

Find = Callable[["Trace", str], "Ids"]


@dataclass(frozen=True, slots=True)
class BreakpointKind:
    """A kind of breakpoint."""

    name: str
    what: str  # what may follow it
    says: str  # in a list of them
    find: Find


KINDS: dict[str, BreakpointKind] = {}


def kind(name: str, what: str = "") -> Callable[[Find], Find]:
    """Declare a kind; the first line of its docstring is its help text."""

    def declared(find: Find) -> Find:
        says = (find.__doc__ or "").partition("\n")[0].rstrip(".")
        KINDS[name] = BreakpointKind(name, what, says[:1].lower() + says[1:], find)
        return find

    return declared


def found(trace: Trace, name: str, wanted: str) -> Ids:
    if name in KINDS:
        moments: Ids = np.unique(KINDS[name].find(trace, wanted))
        there: Ids = moments[moments != NONE]
        return there
    if name in EVENTS:
        return np.unique(_events(trace, EVENTS[name], wanted))
    try:
        if not wanted:
            return np.unique(_node(trace, name))  # a leaf or a module, too
    except UnknownNameError:
        pass
    near = difflib.get_close_matches(name, [*KINDS, *EVENTS], n=2)
    hint = f"did you mean {' or '.join(near)}" if near else "help break lists the kinds"
    raise UnknownNameError(f"there is no kind of breakpoint called {name!r}: {hint}")


def _moments(trace: Trace) -> Moments:
    return trace.once(Moments)


def _events(trace: Trace, event: type[Event], wanted: str) -> Ids:
    """All events of one kind, or those of certain nodes."""
    table, moments = trace.table(event), _moments(trace).of(event)
    if not wanted:
        return moments
    if "node" not in table.data:
        raise UsageError(
            f"{event.KIND} events have no node, so they cannot be limited to {wanted!r}"
        )
    return moments[np.isin(np.asarray(table["node"]), names.nodes(trace, wanted))]


@kind("node", "NAME")
def _node(trace: Trace, wanted: str) -> Ids:
    """A node starts: by name, pattern, leaf, module or line."""
    return _events(trace, NodeBegin, wanted)


@kind("op", "NAME")
def _op(trace: Trace, wanted: str) -> Ids:
    """An operation is called: mul, mul.Tensor, or a pattern."""
    table = trace.table(Op)
    column = np.asarray(table["name"])
    texts = {text: trace.text(text) for text in distinct(column).tolist()}
    plain = {name.partition(".")[0] for name in texts.values()}
    meant = names.matching(wanted, {*texts.values(), *plain}, "operation")
    ids = [text for text, name in texts.items() if {name, name.partition(".")[0]} & meant]
    return _moments(trace).of(Op)[np.isin(column, ids)]


@kind("module", "PATH")
def _module(trace: Trace, wanted: str) -> Ids:
    """An operation is called, or a node starts that was created, inside a module."""
    inside, moments = names.modules(trace, wanted), _moments(trace)
    called = np.isin(np.asarray(trace.table(Op)["module"]), inside)
    nodes = trace.table(Node)
    made = np.asarray(nodes["id"])[np.isin(np.asarray(nodes["module"]), inside)]
    began = np.isin(np.asarray(trace.table(NodeBegin)["node"]), made)
    return np.concatenate([moments.of(Op)[called], moments.of(NodeBegin)[began]])


@kind("line", "FILE:LINE")
def _line(trace: Trace, wanted: str) -> Ids:
    """The program reaches a line, or a backward nodes created there; calls in a row count once."""
    tables = Op, Node, Version, Act
    stacks = [np.asarray(trace.table(each)["stack"], np.int64) for each in tables]
    meant, moments = names.stacks(trace, wanted, np.concatenate(stacks)), _moments(trace)
    called, _, *others = (np.isin(column, meant) for column in stacks)
    made = np.asarray(trace.table(Node)["id"])[np.isin(stacks[1], meant)]
    began = np.isin(np.asarray(trace.table(NodeBegin)["node"]), made)
    alone = [
        moments.of(each)[there & ~_in_calls(trace, each)]
        for each, there in zip(tables[2:], others, strict=True)
    ]
    visits = _visits(trace, Op, called), _visits(trace, NodeBegin, began)
    return np.concatenate([*visits, *alone])


def _visits(trace: Trace, kind: type[Row], there: np.ndarray) -> Ids:
    """The moments at which a thread enters the place."""
    moments = _moments(trace).of(kind)
    threads = np.asarray(trace.table(kind)["thread"])
    order = np.lexsort((moments, threads))
    there, threads = there[order], threads[order]
    again = np.append(False, there[:-1] & (threads[1:] == threads[:-1]))
    found: Ids = moments[order][there & ~again]
    return found


def _in_calls(trace: Trace, kind: type[Row]) -> np.ndarray:
    """Which rows belong to a call that is a moment itself."""
    ops = np.asarray(trace.table(kind)["op"]) if kind is Version else None
    return np.zeros(len(trace.table(kind)), bool) if ops is None else np.not_equal(ops, NONE)


@kind("hook", "NAME")
def _hook(trace: Trace, wanted: str) -> Ids:
    """A hook is called: by the name of its function."""
    called: Ids = _moments(trace).of(HookBegin)[_is_called(trace, wanted)]
    return called


@kind("replaced", "NAME")
def _replaced(trace: Trace, wanted: str) -> Ids:
    """A hook returned a replacement: by the name of its function."""
    begins, ends = trace.table(HookBegin), trace.table(HookEnd)
    moments = _moments(trace)
    called = _is_called(trace, wanted)
    by = ("task", "node", "hook", "index")
    meant = {*zip(*(np.asarray(begins[name])[called].tolist() for name in by), strict=True)}
    same = [row in meant for row in zip(*(ends[name].tolist() for name in by), strict=True)]
    ended: Ids = moments.of(HookEnd)[np.asarray(ends["replaced"], bool) & np.array(same, bool)]
    return ended


def _is_called(trace: Trace, wanted: str) -> np.ndarray:
    """Which calls of hooks belong to a function of this name."""
    column = np.asarray(trace.table(HookBegin)["name"])
    texts = {text: trace.text(text) for text in distinct(column).tolist()}
    short = {text: {name, name.rpartition(".")[2]} for text, name in texts.items()}
    if not texts and not wanted:
        return np.zeros(0, bool)
    meant = names.matching(wanted, set().union(*short.values()), "hook")
    return np.isin(column, [text for text, both in short.items() if both & meant])


@kind("grad", "NAME")
def _grad(trace: Trace, wanted: str) -> Ids:
    """A gradient arrives in `.grad` of a leaf: by name or pattern."""
    column = np.asarray(trace.table(Accumulate)["tensor"])
    return _moments(trace).of(Accumulate)[np.isin(column, names.leaves(trace, wanted))]


@kind("write", "NAME")
def _write(trace: Trace, wanted: str) -> Ids:
    """A tensor is written in place, directly or through a view: by name or id."""
    table, tensors = trace.table(Version), trace.table(Tensor)
    column = np.asarray(table["tensor"], np.int64)
    if not wanted:
        return _moments(trace).of(Version)
    meant = names.tensors(trace, wanted, np.asarray(tensors["id"], np.int64))
    storages = np.asarray(tensors["storage"])[np.isin(np.asarray(tensors["id"]), meant)]
    same = np.isin(np.asarray(table["storage"]), storages[storages != NONE])
    return _moments(trace).of(Version)[same | np.isin(column, meant)]


@kind("release", "NAME")
def _release(trace: Trace, wanted: str) -> Ids:
    """A node releases its saved values."""
    return _events(trace, SavedReleased, wanted)


@kind("nan", "")
def _nan(trace: Trace, wanted: str) -> Ids:
    """A NaN is first produced: the inputs had none."""
    return _born(trace, "NaN", wanted)


@kind("inf", "")
def _inf(trace: Trace, wanted: str) -> Ids:
    """An Inf is first produced."""
    return _born(trace, "Inf", wanted)


def _born(trace: Trace, name: str, wanted: str) -> Ids:
    if wanted:
        raise UsageError(f"{name.lower()} takes no name, only a condition, not {wanted}")
    known = trace.once(births)
    if not known.checked:
        raise UsageError("values were not recorded, so the origin is not known: use --level values")
    born = [each.value for each in known.births if each.kind == name]
    return np.array([moment_of(trace, Value.TABLE, value) for value in born], np.int64)


@kind("finding", "RULE")
def _finding(trace: Trace, wanted: str) -> Ids:
    """A finding of inspect: by id or slug of its rule, or by its own id."""
    known = trace.once(inspect).findings
    wanted = f"{wanted[1:]}*" if wanted.startswith("#") else wanted  # the id, or how it begins
    given = {name for each in known for name in (each.rule, each.slug, each.id)}
    meant = names.matching(wanted, given, "finding") if known or wanted else set()
    chosen = [each for each in known if {each.rule, each.slug, each.id} & meant]
    return np.array([moment_shown(trace, each) for each in chosen], np.int64)


def moment_shown(trace: Trace, finding: Finding) -> int:
    """The moment of its evidence or, for a finding in the source, of the first run of its line."""
    moment = moment_of_finding(trace, finding)
    if moment != NONE or not finding.site.place:
        return moment
    came = _line(trace, finding.site.place)
    return int(min(came[came != NONE], default=NONE))


@kind("error", "")
def _error(trace: Trace, wanted: str) -> Ids:
    """An exception is raised."""
    return _events(trace, Error, wanted)


@kind("backward", "")
def _backward(trace: Trace, wanted: str) -> Ids:
    """A backward starts."""
    return _events(trace, TaskBegin, wanted)


@kind("step", "N")
def _step(trace: Trace, wanted: str) -> Ids:
    """A step starts: any, or the one with this number."""
    moments, table = _moments(trace).of(Step), trace.table(Step)
    if not wanted:
        return moments
    numbers = np.asarray(table["number"]).tolist()
    meant = names.matching(wanted, map(str, numbers), "step")
    return moments[[str(number) in meant for number in numbers]]


@kind("act", "KIND")
def _act(trace: Trace, wanted: str) -> Ids:
    """An event of the program: zero_grad, step, cut, train, warning, …."""
    column = np.asarray(trace.table(Act)["kind"])
    texts = {text: trace.text(text) for text in distinct(column).tolist()}
    meant = names.matching(wanted, texts.values(), "act") if texts or wanted else set()
    ids = [text for text, name in texts.items() if name in meant]
    return _moments(trace).of(Act)[np.isin(column, ids)]


@kind("mark", "NAME")
def _mark(trace: Trace, wanted: str) -> Ids:
    """A mark set by the program."""
    rows = trace.table(Mark).texts("name")
    meant = names.matching(wanted, rows, "mark") if rows or wanted else set()
    return _moments(trace).of(Mark)[[name in meant for name in rows]]
