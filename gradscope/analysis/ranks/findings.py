"""Findings of a merged trace: each rank is checked separately, and equal findings are merged.

Of ranks with equal rows, one is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from gradscope.analysis.findings import Evidence, Finding
from gradscope.analysis.ranks.merging.one_rank import RankPart, equal_parts, parts
from gradscope.analysis.ranks.received import without_received
from gradscope.analysis.ranks.whose import listed
from gradscope.trace.trace import Trace


def of_each_rank(trace: Trace, findings: Callable[[Trace], Iterable[Finding]]) -> Iterator[Finding]:
    """The findings of a trace; for a merged one those of its ranks, merged with their ranks."""
    if "ranks" not in trace.meta:
        yield from findings(trace)
        return
    first: dict[tuple[str, str], Finding] = {}
    on: dict[tuple[str, str], list[int]] = {}
    for group in trace.once(equal_parts):
        for finding in findings(group[0].trace):
            key = finding.rule, finding.id
            first.setdefault(key, _in_the_whole(group[0], finding))
            on.setdefault(key, []).extend(part.rank for part in group)
    told = []
    many = len(trace.once(parts))
    for key, finding in first.items():
        ranks = sorted(on[key])
        where = f"all {many} ranks" if len(ranks) == many else listed(ranks)
        message = f"{finding.message} (on {where})"
        told.append(replace(finding, message=message, ranks=tuple(ranks)))
    yield from without_received(trace, told)


def _in_the_whole(part: RankPart, finding: Finding) -> Finding:
    """The evidence with the event numbers of the merged trace; other ids are the same."""
    evidence = tuple(
        Evidence(each.table, int(part.seqs[each.id])) if each.table.startswith("event") else each
        for each in finding.evidence
    )
    return replace(finding, evidence=evidence)
