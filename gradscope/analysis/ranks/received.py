"""NaN and Inf that a rank received from another one, in averaged gradients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gradscope.analysis.findings import Finding
from gradscope.analysis.ranks.whose import listed
from gradscope.trace.schema import Act, Collective, Node, Op, Replicated, Tensor, Value
from gradscope.trace.trace import Trace

NON_FINITE = ("non-finite-birth", "non-finite-seen")
"""The rules about NaN and Inf."""

AVERAGED = "gradients are reduced over ranks"
WHY = f"{AVERAGED}, and another rank may have produced it"
FIX = "inspect the traces of all ranks together: `gradscope inspect trace.rank*.json`"


def _shared(trace: Trace) -> frozenset[int]:
    """The parameters whose gradients ranks reduce together."""
    replicated = {tensor for row in trace.rows(Replicated) for tensor in row.parameters}
    reduced = (row.parameters for row in trace.rows(Collective) if row.holds == "gradients")
    return frozenset(replicated.union(*reduced))


def may_be_received(trace: Trace, tensors: Iterable[int]) -> bool:
    """Whether all these tensors, of which there are some, are parameters that ranks share."""
    wanted = set(tensors)
    return bool(wanted) and wanted <= trace.once(_shared)


def without_received(trace: Trace, findings: Sequence[Finding]) -> list[Finding]:
    """The findings about NaN and Inf, where those of receiving ranks are part of the origin's.

    A finding that names a call, or a node of a backward, is an origin. One that names only
    parameters whose gradients ranks reduce, later, has received it; what follows on a rank that has
    received it is a consequence.
    """
    if not any(each.slug in NON_FINITE for each in findings):
        return [*findings]
    received = [each for each in findings if _is_received(trace, each)]
    origins = [
        each
        for each in findings
        if each.slug in NON_FINITE and each not in received and _rows(each, Op.TABLE, Node.TABLE)
    ]
    if not received or not origins:
        return [*findings]
    first = min(origins, key=lambda each: _begin(trace, each))
    folded = [each for each in received if _begin(trace, each) >= _begin(trace, first)]
    since = {
        rank: min(_begin(trace, each) for each in folded if rank in each.ranks)
        for rank in {rank for each in folded for rank in each.ranks}
    }
    folded += [each for each in findings if each not in folded and _follows(trace, each, since)]
    ranks = sorted({rank for each in folded for rank in each.ranks} - {*first.ranks})
    told = replace(first, why=f"{first.why}; {listed(ranks)} received it: {AVERAGED}")
    kept = (told if each is first else each for each in findings if each not in folded)
    return [*kept] if ranks else [*findings]


def _follows(trace: Trace, finding: Finding, since: Mapping[int, int]) -> bool:
    """Whether a finding about NaN or Inf is only of ranks that had received it before."""
    own = [since.get(rank) for rank in finding.ranks]
    known = [time for time in own if time is not None]
    if finding.slug not in NON_FINITE or not known or len(known) < len(own):
        return False
    return _begin(trace, finding) > min(known)


def _rows(finding: Finding, *tables: str) -> set[int]:
    return {each.id for each in finding.evidence if each.table in tables}


def _is_received(trace: Trace, finding: Finding) -> bool:
    values = trace.table(Value)
    tensors = [each.id for each in finding.evidence if each.table == Tensor.TABLE]
    shown = [each.id for each in finding.evidence if each.table == Value.TABLE]
    tensors += [int(values["tensor"][values.index(id)]) for id in shown]
    return not _rows(finding, Op.TABLE) and may_be_received(trace, tensors)


def _begin(trace: Trace, finding: Finding) -> int:
    """The time of its first row."""
    first = finding.evidence[0]
    table = trace.table(Act if first.table == Act.TABLE else Value)
    return int(table["t"][table.index(first.id)])
