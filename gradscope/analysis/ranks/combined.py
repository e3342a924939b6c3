"""Gradients that ranks combined in another way than once, by averaging them.

Only parameters that are equal on all ranks are judged: others belong to parallel parts of a model.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradscope.analysis.identity.sites import Site, own_site
from gradscope.analysis.lookups import grouped
from gradscope.analysis.program.acts import Acts
from gradscope.analysis.ranks.audit import (
    COMBINED,
    Audit,
    AuditedParameter,
    Combining,
    audits,
)
from gradscope.analysis.ranks.merging.one_rank import parts
from gradscope.analysis.ranks.training.parting import lines_of
from gradscope.analysis.source.files import SourceFiles
from gradscope.trace.schema import NONE, ClipAct, Collective, Span
from gradscope.trace.trace import Trace

ODD = (Combining.SUMMED, Combining.DIVIDED, Combining.MULTIPLIED)
REPLICATED = "replicated"
REDUCES = ("all_reduce", "reduce")
CHANGES = ("div_", "mul_")


@dataclass(frozen=True, slots=True)
class Reduced:
    """A collective with the gradient of a parameter, on the first rank."""

    span: int
    group: int
    stack: int
    name: str  # "all_reduce"
    caller: str  # "DistributedDataParallel"; "": the program


@dataclass(frozen=True, slots=True)
class OddlyCombined:
    """Parameters of one optimizer whose gradients were combined in the same odd way."""

    audit: Audit
    parameters: tuple[AuditedParameter, ...]
    others: int  # number of parameters whose gradients were averaged
    reduced: tuple[Reduced, ...]  # of the first parameter, if it was reduced more than once
    site: Site  # the line to look at


@dataclass(frozen=True, slots=True)
class ScalesGradient:
    """A line of the source."""

    line: int


def oddly_combined(trace: Trace) -> tuple[OddlyCombined, ...]:
    """All of them, at the first step of each optimizer that was measured."""
    if len(trace.meta.get("ranks", ())) < 2:
        return ()
    return tuple(found for audit in audits(trace) for found in _odd(trace, audit))


def _odd(trace: Trace, audit: Audit) -> list[OddlyCombined]:
    judged = [one for one in audit.parameters if one.layout == REPLICATED]
    often = Counter(one.how for one in judged)
    reduced = _reduced(trace, audit)
    groups: dict[tuple[Combining, bool], list[AuditedParameter]] = defaultdict(list)
    for one in judged:
        twice = _is_twice(reduced.get(one.tensor, ()))
        averaged = often[Combining.AVERAGED] > often[one.how] and one.how in ODD
        again = one.how in {Combining.DIVIDED, Combining.MULTIPLIED}
        if (twice and one.how not in {Combining.AVERAGED, Combining.SAME}) or averaged or again:
            groups[one.how, twice].append(one)
    return [
        OddlyCombined(
            audit, tuple(those), often[Combining.AVERAGED],
            tuple(reduced[those[0].tensor]) if twice else (),
            _site(trace, audit, reduced.get(those[0].tensor, ()), twice=twice),
        )
        for (_, twice), those in groups.items()
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class CombinedApart:
    """Gradients of different tensors that the program combined as if they were of one."""

    parameters: tuple[AuditedParameter, ...]
    site: Site  # the last collective with the first of them
    callers: Sequence[Site]  # the line that calls the function of that line, if it is the only one
    span: int  # of that collective


def combined_apart(trace: Trace) -> tuple[CombinedApart, ...]:
    """In the first step of each optimizer, by the ranks over which they were combined.

    A later difference is a drift of replicas. Packages combine gradients of parts on purpose.
    """
    found = []
    for audit in audits(trace) if len(trace.meta.get("ranks", ())) > 1 else ():
        unlike = [one for one in audit.parameters if one.unlike and one.how in COMBINED]
        reduced = _reduced(trace, audit) if unlike and audit.number == 0 else {}
        own = {
            tensor: calls[-1]
            for tensor, calls in reduced.items()
            if not any(each.caller for each in calls)
        }
        chosen = [one for one in unlike if one.tensor in own]
        for those in grouped(chosen, lambda one: one.ranks).values():
            last = own[those[0].tensor]
            site, callers = own_site(trace, last.stack), lines_of(trace, last.stack)[1:2]
            found.append(CombinedApart(tuple(those), site, callers, last.span))
    return tuple(found)


def _is_twice(reduced: Sequence[Reduced]) -> bool:
    """Whether one group reduced a gradient more than once, not only in backwards."""
    return (
        len({each.group for each in reduced}) == 1
        and len(reduced) > 1
        and any(not each.caller for each in reduced)
    )


def _reduced(trace: Trace, audit: Audit) -> dict[int, list[Reduced]]:
    """The collectives with the gradient of each parameter before the step."""
    own = next(part.trace for part in trace.once(parts) if part.rank == audit.ranks[0])
    spans, found = {row.id: row for row in own.rows(Span)}, defaultdict(list)
    for row in own.rows(Collective):
        span = spans.get(row.span)
        if span is None or row.holds != "gradients" or not audit.since < span.begin <= audit.until:
            continue
        name = span.name.partition(",")[0]
        if name in REDUCES:
            for tensor in row.parameters:
                found[tensor].append(Reduced(row.span, row.group, row.stack, name, row.caller))
    return found


def _site(trace: Trace, audit: Audit, reduced: Sequence[Reduced], *, twice: bool) -> Site:
    """The last call of the program with the gradient; else a line that scales gradients."""
    called = [each.stack for each in reduced if not each.caller and each.stack != NONE]
    if called and twice:
        return own_site(trace, called[-1])
    return _in_source(trace, audit) or own_site(trace, called[-1] if called else audit.stack)


def scaled_at(trace: Trace, audit: Audit) -> Site:
    """The line that may have scaled gradients by other factors on each rank, else the step.

    The last one that clipped them before the step, else one that scales gradients in the source.
    """
    own = next(part.trace for part in trace.once(parts) if part.rank == audit.ranks[0])
    tensors = {each.tensor for each in audit.parameters}
    for act in reversed(own.once(Acts).of(ClipAct)):
        if audit.since < act.t <= audit.until and tensors.intersection(act.tensors):
            return own_site(trace, act.stack)
    return _in_source(trace, audit) or own_site(trace, audit.stack)


def _in_source(trace: Trace, audit: Audit) -> Site | None:
    """The last line before the step that scales gradients; else the last one of all files."""
    step = own_site(trace, audit.stack)
    scaled = [each.site for each in trace.once(SourceFiles).each(scaled_gradients)]
    before = [site for site in scaled if site.file == step.file and site.line <= step.line]
    return next(iter((before or scaled)[-1:]), None)


def scaled_gradients(tree: ast.Module) -> Iterator[ScalesGradient]:
    """Lines that multiply or divide a `.grad` in place, or a part of it."""
    for each in ast.walk(tree):
        if isinstance(each, ast.AugAssign) and isinstance(each.op, ast.Div | ast.Mult):
            of: ast.expr = each.target
        elif isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute):
            if each.func.attr not in CHANGES:
                continue
            of = each.func.value
        else:
            continue
        if any(isinstance(inner, ast.Attribute) and inner.attr == "grad" for inner in ast.walk(of)):
            yield ScalesGradient(each.lineno)
