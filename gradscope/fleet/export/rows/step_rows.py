"""The table `step`."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from gradscope.analysis.identity.steps import steps
from gradscope.analysis.lookups import Ids
from gradscope.analysis.program.acts import Acts
from gradscope.analysis.program.numbers import TensorNumbers
from gradscope.analysis.timing.by_step import step_facts
from gradscope.analysis.timing.durations import durations
from gradscope.analysis.timing.own_work import OwnWorkTimes
from gradscope.fleet.export.cells import FleetCells, ids, integers, reals
from gradscope.fleet.export.rows.rank_trace import RankTrace, StepOrder
from gradscope.trace.schema import NONE, GraphTask, Node, Op, Phase, Span, StepAct
from gradscope.trace.schema.sharding import GOES_ON
from gradscope.trace.trace import Trace

MOST_LEFT_OUT = 1_000_000
"""Steps that were not recorded have a row each if there are not more than these."""
TOO_LARGE = 1 << 63
"""A cell holds a smaller number. A damaged trace may have a step that lasts longer."""


def step_rows(of: RankTrace) -> tuple[StepOrder, dict[str, FleetCells]]:
    """The steps of the training; those that were left out of the recording have a row, too."""
    trace = of.trace
    chosen = sorted(of.steps, key=lambda step: step.number)
    facts = dict(zip((step.id for step in steps(trace)), step_facts(trace), strict=True))
    missing = _left_out([step.number for step in chosen])
    numbers = np.array([step.number for step in chosen] + missing, np.int64)
    by = np.argsort(numbers, kind="stable")
    order = StepOrder(by, numbers[by], np.ones(len(by), bool))
    many, recorded = len(missing), of.recorded
    seen = np.array([step.id in recorded for step in chosen] + [False] * many, bool)

    def column(values: list[int]) -> Ids:
        return np.array(values + [NONE] * many, np.int64)

    def fact(name: str) -> FleetCells:
        found = [getattr(facts[s.id], name) if s.id in facts else NONE for s in chosen]
        return ids(column([each if abs(each) < TOO_LARGE else NONE for each in found]))

    waits, loss, rate = collective_times(trace), losses(trace), _rates(trace)
    ops, real = Counter(trace.table(Op)["step"].tolist()), [step.id for step in chosen]
    columns = {
        "begin_at": of.moments(column([step.begin for step in chosen])),
        "end_at": of.moments(column([step.end for step in chosen])),
        "duration_ns": fact("ns"),
        "forward_ns": fact("forward_ns"),
        "backward_ns": fact("backward_ns"),
        "optimizer_ns": fact("optimizer_ns"),
        "collective_ns": FleetCells(column([waits.get(each, 0) for each in real]), seen),
        "loss": FleetCells(
            np.array([loss.get(each, math.nan) for each in real] + [math.nan] * many),
            np.array([each in loss for each in real] + [False] * many, bool),
        ),
        "lr": reals(np.array([rate.get(each, math.nan) for each in real] + [math.nan] * many)),
        "backwards": fact("backwards"),
        "ops": FleetCells(column([ops.get(each, 0) for each in real]), seen),
        "nodes": fact("nodes"),
        "recorded": integers(seen),
        "finished": integers(np.array([s.end != NONE for s in chosen] + [True] * many, bool)),
    }
    return order, {name: cells.take(by) for name, cells in columns.items()}


def _left_out(numbers: list[int]) -> list[int]:
    """Numbers between these that are not among them."""
    if not numbers or numbers[-1] - numbers[0] > MOST_LEFT_OUT:
        return []
    return sorted(set(range(numbers[0], numbers[-1])) - set(numbers))


def collective_times(trace: Trace) -> dict[int, int]:
    """How long each step waited in collectives, by the id of the step."""
    table = trace.table(Span)
    rows = np.flatnonzero(waited(trace) & (table["end"] != NONE))
    thread, begin, end = (table[name][rows] for name in ("thread", "begin", "end"))
    took = durations(begin, end) - trace.once(OwnWorkTimes).within(thread, begin, end)
    found: Counter[int] = Counter()
    for step, ns in zip(table["step"][rows].tolist(), took.tolist(), strict=True):
        found[step] += max(ns, 0)
    return found


def waited(trace: Trace) -> np.ndarray:
    """A mask of the spans that are collectives in which the program waited, the outermost only."""
    table = trace.table(Span)
    exchanges = table["phase"] == Phase.COLLECTIVE
    waits = exchanges.copy()
    for row in np.flatnonzero(exchanges).tolist():
        if trace.text(int(table["name"][row])).endswith(GOES_ON):
            waits[row] = False
    parents = table.positions(table["parent"])
    inside = np.zeros(len(table), bool)
    known = parents != NONE
    inside[known] = exchanges[parents[known]]
    found: np.ndarray = waits & ~inside
    return found


def losses(trace: Trace) -> dict[int, float]:
    """The value from which the last outermost backward of a step began, by the id of the step."""
    tasks, nodes, numbers = trace.table(GraphTask), trace.table(Node), trace.once(TensorNumbers)
    found: dict[int, float] = {}
    outer = np.flatnonzero(tasks["parent"] == NONE)
    outer = outer[np.argsort(tasks["begin"][outer], kind="stable")]
    roots, steps = tasks.ragged("roots").take(outer).tuples(), tasks["step"][outer].tolist()
    for of, step in zip(roots, steps, strict=True):
        if len(of) == 1 and nodes.has(of[0]):
            op = int(nodes["op"][nodes.index(of[0])])
            at = NONE if op == NONE else numbers.of_op(op)
            if at != NONE and numbers.number("count", at) == 1:
                found[step] = _number(numbers, at)
    return found


def _number(numbers: TensorNumbers, at: int) -> float:
    """The one element that these are the statistics of."""
    special = {"nan": math.nan, "posinf": math.inf, "neginf": -math.inf}
    return next(
        (value for name, value in special.items() if numbers.number(name, at)),
        numbers.number("mean", at),
    )


def _rates(trace: Trace) -> dict[int, float]:
    """The learning rate of the first parameter group at the last step of an optimizer."""
    acts = trace.once(Acts).of(StepAct)
    return {act.step: act.facts.lr[0] for act in acts if act.facts.lr}
