"""What a rule reports: a finding, its severity, its certainty and its evidence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from gradscope.analysis.identity.sites import Site
from gradscope.analysis.lookups import as_written
from gradscope.trace.schema import NONE, Tensor
from gradscope.trace.trace import Trace

FEW = 3
"""Number of similar rows that are named."""


class Severity(IntEnum):
    """How much a finding matters; higher is worse."""

    NOTE = 0
    WARNING = 1
    ERROR = 2


class Certainty(StrEnum):
    """How sure a finding is."""

    CERTAIN = "certain"  # observed in the events
    INFERRED = "inferred"  # inferred from other records
    SUSPECTED = "suspected"  # matches a pattern


@dataclass(frozen=True, slots=True)
class Evidence:
    """A row of the trace on which a finding is based."""

    table: str
    id: int  # of the row; for an event, its `seq`


def few_tensors(trace: Trace, ids: Iterable[int]) -> tuple[Evidence, ...]:
    """The first few of these tensors, as evidence."""
    return tuple(Evidence("tensor", id) for id in as_written(trace.table(Tensor), ids)[:FEW])


def known_rows(*rows: tuple[str, int]) -> tuple[Evidence, ...]:
    """Evidence for those of these rows, by table and id, that exist."""
    return tuple(Evidence(table, id) for table, id in rows if id != NONE)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What to write instead of one line of the program."""

    site: Site  # that line
    code: str  # the new one, without its indentation and comment
    unsafe: str = ""  # why a person must decide; "" if nothing but the fault changes


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem in one sentence, with its reason and its fix."""

    rule: str  # GS201
    slug: str  # non-finite-birth
    severity: Severity
    message: str  # one sentence: what, and where
    site: Site  # the line to look at
    evidence: tuple[Evidence, ...]  # rows of the trace that show it
    why: str
    fix: str  # what to write instead
    certainty: Certainty = Certainty.CERTAIN
    id: str = field(default="", compare=False)  # stays the same if other code changes
    parameters: tuple[int, ...] = ()  # ids of those whose missing gradient it explains
    ranks: tuple[int, ...] = ()  # of a merged trace, those that have it
    steps: tuple[int, ...] = field(default=(), compare=False)  # numbers of those of its evidence
    function: str = field(default="", compare=False)  # of the line, as in "Head.forward"
    rewrite: Rewrite | None = field(default=None, compare=False)  # `fix` as a line, if it is one
