"""Compares two traces: what is the same, and where they first differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from gradscope.analysis.likeness.aspects import Aspect, Both, Difference, SameNodes, Section
from gradscope.analysis.likeness.changes import BEHAVIOR, Change, changes
from gradscope.analysis.likeness.graphs import arguments, moved, names, saved, structure
from gradscope.analysis.likeness.match import match
from gradscope.analysis.likeness.orders import Orders, Tolerance, values
from gradscope.analysis.likeness.parts import not_seen, parts
from gradscope.analysis.likeness.who import WordNumbers
from gradscope.errors import EmptyTraceError
from gradscope.trace.schema import EVENTS, GraphTask, HookBegin, HookKind, Node, Saved, Value
from gradscope.trace.trace import Trace

GRAPH = "graph"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of two traces: the result for each aspect, and what was not compared."""

    sections: tuple[Section, ...]
    not_compared: tuple[str, ...]
    moved: int  # lines that moved in the file and are otherwise the same
    same: SameNodes
    changes: tuple[Change, ...] = ()  # what changed, as a person would name it; causes first
    both: Both | None = field(default=None, repr=False)  # the traces, matched

    @property
    def differs(self) -> bool:
        """Whether the runs differ: in an aspect, or in a setting that the program passed."""
        return self.first is not None or any(each.kind in BEHAVIOR for each in self.changes)

    @property
    def first(self) -> tuple[Section, Difference] | None:
        """The first difference of the first aspect that has any."""
        found = (each for each in self.sections if each.first is not None)
        section = next(found, None)
        return None if section is None or section.first is None else (section, section.first)


def compare(one: Trace, other: Trace, tolerance: Tolerance | None = None) -> Comparison:
    """Compare two traces; what one of them lacks is left out and reported."""
    for which, trace in (("first", one), ("second", other)):
        if not len(trace.table(GraphTask)):
            raise EmptyTraceError(
                f"the {which} trace has no backward, so there is nothing to compare; "
                "record a program that calls backward() or torch.autograd.grad()"
            )
    words, absent = WordNumbers(), not_seen(one, other)
    both_parts = parts(one, words, absent), parts(other, words, absent)
    both = Both(*both_parts, match(*both_parts))
    lacking = tuple(_lacking(one, other))
    left_out = {kind for kind, _ in lacking}
    said = [reason for _, reason in lacking]
    sections = [structure(both), names(both)]
    if Aspect.ARGUMENTS not in left_out and both.one.nodes["arguments"].any():
        sections.append(arguments(both))
    if Aspect.SAVED not in left_out:
        sections.append(saved(both))
    if Aspect.EXECUTION not in left_out:
        orders = Orders(both)
        sections += [orders.execution(), orders.accumulation()]
        if both.whole:
            sections.append(orders.others())
        else:
            said.append("events: counts and queues depend on the graphs, which differ")
    if Aspect.VALUES not in left_out:
        sections.append(values(both, tolerance or Tolerance()))
    said += _absent(one, other)
    named = changes(both, sections)
    return Comparison(tuple(sections), tuple(said), moved(both), both.same(), named, both)


def _lacking(one: Trace, other: Trace) -> Iterator[tuple[Aspect, str]]:
    """Aspects that cannot be compared, and why."""
    at = [trace.meta.get("level") for trace in (one, other)]
    side = _which([level == GRAPH for level in at])
    if side:
        order = Aspect.EXECUTION
        yield order, f"{order}, accumulation and events: {side} at level graph"
    kept = [len(trace.table(Saved)) > 0 for trace in (one, other)]
    if side and not all(kept):
        yield Aspect.SAVED, f"{Aspect.SAVED}: {_which([not each for each in kept])} without them"
    read = [bool(np.any(trace.table(Node)["arguments"])) for trace in (one, other)]
    if any(read) and not all(read):
        yield (
            Aspect.ARGUMENTS,
            f"{Aspect.ARGUMENTS}: {_which([not each for each in read])} without them",
        )
    measured = [len(trace.table(Value)) > 0 for trace in (one, other)]
    if not all(measured):
        side = _which([not each for each in measured])
        yield Aspect.VALUES, f"{Aspect.VALUES}: {side} without them; record with --level values"


def _which(chosen: list[bool]) -> str:
    if all(chosen):
        return "both traces are"
    return "" if not any(chosen) else f"the {'first' if chosen[0] else 'second'} trace is"


def _absent(one: Trace, other: Trace) -> Iterator[str]:
    """What one trace could not record, if the other has it."""
    left_out = not_seen(one, other)
    for which, trace, others in (("first", one, other), ("second", other, one)):
        names = [name for name in sorted(left_out & _not_sure(trace)) if _has(others, name)]
        if names:
            what = "that" if len(names) == 1 else "them"
            yield f"{', '.join(names)}: the {which} trace could not record {what}"


def _not_sure(trace: Trace) -> set[str]:
    """What a trace reports as missing."""
    return {name for key in ("absent", "inferred") for name in trace.meta.get(key, ())}


def _has(trace: Trace, name: str) -> bool:
    """Whether a trace has a kind of events, or values in one of its columns."""
    kind, _, column = name.partition(".")
    if kind not in EVENTS:
        return name == "saved.version"
    table = trace.table(EVENTS[kind])
    if kind == HookBegin.KIND and column in HookKind.__members__:
        return bool(np.any(table["hook"] == HookKind[column]))
    return len(table) > 0 and trace.sees(name)
