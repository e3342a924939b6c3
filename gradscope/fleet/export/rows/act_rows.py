"""The tables `act` and `finding`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson

from gradscope.analysis.findings import Finding
from gradscope.analysis.program.acts import Acts, Done, said_by
from gradscope.analysis.report import Guard, worst_first
from gradscope.analysis.rules import all_rules
from gradscope.fleet.export.cells import FleetCells, ids, integers, texts
from gradscope.fleet.export.rows.rank_trace import RankTrace, StepOrder
from gradscope.trace.schema import NONE, ActFacts, StepAct
from gradscope.trace.trace import Trace

OF_PARAMETERS = frozenset(("moved", "size", "grad", "sums", "hashes", "alike", "alike_to"))
"""Columns of an optimizer's step with a value per parameter: these are in table `grad`."""


def act_rows(of: RankTrace) -> tuple[StepOrder, dict[str, FleetCells]]:
    """Events of the program that are no operations, in the order of time."""
    acts = of.trace.once(Acts).all

    def column(name: str, some: Sequence[Done[ActFacts]] = acts) -> np.ndarray:
        return np.array([getattr(act, name) for act in some], np.int64)

    order = of.order(column("step"), column("t"), column("id"))
    chosen = [acts[row] for row in order.rows.tolist()]
    inside, module = column("inside", chosen), column("module", chosen)
    return order, {
        "id": integers(column("id", chosen)),
        "kind": texts([act.kind for act in chosen]),
        "happened_at": of.moments(column("t", chosen)),
        "of": ids(column("of", chosen)),
        "facts": texts([_facts(act.facts) for act in chosen]),
        "parameters": texts([_names(of, act) for act in chosen]),
        "module": of.modules(module),
        "inside": of.modules(inside),
        "line_hash": of.lines.of(column("stack", chosen)),
        "thread": ids(column("thread", chosen)),
        "task": ids(column("task", chosen)),
    }


def _names(of: RankTrace, act: Done[ActFacts]) -> str | None:
    """Names of the leaves, as a JSON list; of a step, those without a gradient are in `grad`."""
    if not act.tensors or isinstance(act.facts, StepAct):
        return None
    return orjson.dumps(of.titles(act.tensors)).decode()


def _facts(facts: ActFacts) -> str:
    """The columns with information, as a JSON object; numbers that JSON lacks as text."""
    left = OF_PARAMETERS if isinstance(facts, StepAct) else frozenset[str]()
    found = {name: _plain(cell) for name, cell in said_by(facts) if name not in left}
    return orjson.dumps(found).decode()


def _plain(cell: Any) -> Any:
    if isinstance(cell, tuple):
        return [_plain(each) for each in cell]
    if isinstance(cell, float) and not math.isfinite(cell):
        return str(cell)  # nan, inf, -inf
    return cell


def findings(trace: Trace) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """What the rules find in this trace alone, and in words which rules could not run."""
    guard = Guard()
    able = [rule for rule in all_rules() if not rule.across and rule.can_check(trace)]
    found = worst_first(trace, able, guard)
    return found, tuple(fault.words for fault in guard.faults)


def finding_rows(of: RankTrace, found: Sequence[Finding]) -> dict[str, FleetCells]:
    """The table `finding`."""
    step = [min(each.steps, default=NONE) for each in found]
    known = np.array([bool(each.steps) for each in found], bool)
    return {
        "step": FleetCells(np.array(step, np.int64), known),
        "k": integers(np.arange(len(found))),
        "rule": texts([each.rule for each in found]),
        "slug": texts([each.slug for each in found]),
        "severity": texts([each.severity.name.lower() for each in found]),
        "certainty": texts([each.certainty.value for each in found]),
        "message": texts([each.message for each in found]),
        "why": texts([each.why for each in found]),
        "fix": texts([each.fix for each in found]),
        "place": texts([each.site.place for each in found]),
        "line_hash": of.lines.at([each.site for each in found]),
        "finding_id": texts([each.id for each in found]),
    }
