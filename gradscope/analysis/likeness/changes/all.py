"""All changes between two traces: causes first, and without what only follows from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradscope.analysis.likeness.aspects import Aspect, Both, Section
from gradscope.analysis.likeness.changes.change import Change, ChangeKind
from gradscope.analysis.likeness.changes.edits import edited
from gradscope.analysis.likeness.changes.gaps import Gaps
from gradscope.analysis.likeness.changes.matched import (
    arguments_changed,
    modules_renamed,
    sizes_changed,
)
from gradscope.analysis.likeness.changes.model import LeavesOfBoth, ModulesOfBoth
from gradscope.analysis.likeness.changes.settings import settings, steps, updated
from gradscope.analysis.program.acts import Acts
from gradscope.analysis.program.modules import module_names
from gradscope.trace.schema import NONE, Module, Node, StepAct
from gradscope.trace.trace import Trace

ORDER = list(ChangeKind)


def changes(both: Both, sections: Sequence[Section]) -> tuple[Change, ...]:
    """What changed between two traces; none if nothing did."""
    one, other = both.one.who.trace, both.other.who.trace
    modules = ModulesOfBoth(one, other)
    leaves = list(LeavesOfBoth(both).changes(modules))
    found = [*settings(both), *Gaps(both, modules).changes(), *leaves]
    if not any(each.kind in (ChangeKind.NEW, ChangeKind.GONE) for each in found):
        found += updated(both)
    resized = any(each.kind is ChangeKind.LEAF for each in leaves)
    found += arguments_changed(both, sized=resized)
    if not resized:
        found += sizes_changed(both)
    found += modules_renamed(both)
    found += steps(both)
    found += edited(one, other, found)
    if all(each.kind is ChangeKind.LINE for each in found):
        found += _others(sections, edited=bool(found))
    found += _values(both, sections, alone=not found)
    return tuple(sorted(found, key=lambda each: ORDER.index(each.kind)))


def _others(sections: Sequence[Section], *, edited: bool) -> Iterator[Change]:
    """The first aspect that differs though no other change explains it, except values.

    `edited`: nodes may be created by lines that changed.
    """
    for section in sections:
        first = section.first
        if first is None or section.kind in (Aspect.VALUES, Aspect.ARGUMENTS):
            continue
        if edited and section.kind is Aspect.NAMES and {w for w, _ in section.counts} <= EDITED:
            continue
        sides = first.one.site, first.other.site
        nodes = (first.other.node,) if first.other.node != NONE else ()
        words = f"{section.kind}: {first.what}"
        yield Change(ChangeKind.OTHER, words, 0, *sides, nodes=nodes)
        return  # further ones may follow from it


EDITED = frozenset(("nodes are created by a line that changed",))


def _values(both: Both, sections: Sequence[Section], *, alone: bool) -> Iterator[Change]:
    section = next((each for each in sections if each.kind is Aspect.VALUES), None)
    if section is None or section.first is None:
        return
    one, other = both.one.who.trace, both.other.who.trace
    first = section.first
    words = "values differ" + (f" from step {first.step} on" if first.step != NONE else "")
    module = _module(other, first.other.node)
    words += f", first in {module}" if module else ""
    if alone:
        words = f"no difference in structure; {words}"
        words += ": random numbers differ" * (random_states(one, other)[1] is not None)
    nodes = (first.other.node,) if first.other.node != NONE else ()
    yield Change(ChangeKind.VALUES, words, 0, first.one.site, first.other.site, nodes=nodes)


def _module(trace: Trace, node: int) -> str:
    """As in "`blocks.0.drop` (Dropout)", for a node that a module other than the root created."""
    nodes, modules = trace.table(Node), trace.table(Module)
    module = int(nodes["module"][nodes.index(node)]) if nodes.has(node) else NONE
    if not modules.has(module) or not modules.row(module).path:
        return ""
    return f"`{module_names(trace)[module]}` ({modules.row(module).type})"


def random_states(one: Trace, other: Trace) -> tuple[int, int | None]:
    """How many states of both generators were compared, and the first that differs, if any.

    They are recorded after the steps of optimizers.
    """
    found = [
        [each.facts.random for each in trace.once(Acts).of(StepAct) if each.facts.random != NONE]
        for trace in (one, other)
    ]
    pairs = list(zip(*found, strict=False))
    return len(pairs), next((at for at, (a, b) in enumerate(pairs) if a != b), None)
