"""The tables `value` and `grad`."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradscope.analysis.lookups import Ids
from gradscope.analysis.program.acts import Acts, Done
from gradscope.analysis.timing.durations import look_up
from gradscope.fleet.export.cells import FleetCells, distinct_of, ids, integers, named, reals, texts
from gradscope.fleet.export.rows.rank_trace import RankTrace, StepOrder
from gradscope.trace.schema import NONE, Node, Op, Place, StepAct, Tensor, Value
from gradscope.trace.trace import Trace

COUNTS = ("count", "nan", "posinf", "neginf", "zero")
SIZES = ("min", "max", "mean", "rms", "norm")
PLACES = [place.name.lower() for place in Place]


def step_of_values(of: RankTrace) -> Ids:
    """The step of each row of the trace's table; if it has none, that of its backward."""
    values = of.trace.table(Value)
    own = values.array("step")
    return np.where(own == NONE, of.of_tasks(values.array("task")), own)


def value_rows(of: RankTrace) -> tuple[StepOrder, dict[str, FleetCells]]:
    """Statistics of tensors, in the order in which they were measured."""
    trace = of.trace
    values, nodes, ops = trace.table(Value), trace.table(Node), trace.table(Op)
    order = of.order(step_of_values(of), values.array("t"))
    rows = order.rows
    op, node = values["op"][rows], values["node"][rows]
    by_op = op != NONE

    def either(column: str) -> Ids:
        of_op, of_node = look_up(ops, column, op), look_up(nodes, column, node)
        found: Ids = np.where(by_op & (of_op != NONE), of_op, of_node)
        return found

    bad = np.zeros(len(rows), np.int64)
    for name in ("nan", "posinf", "neginf"):
        bad = bad + values[name][rows]
    first = values.ragged("bad").take(rows)
    some = first.lengths > 0
    first_bad = np.full(len(rows), NONE, np.int64)
    first_bad[some] = first.values[first.offsets[:-1][some]]
    return order, {
        "seq": ids(values["seq"][rows]),
        "place": named(values["place"][rows], PLACES),
        "name": of.strings(either("name")),
        "index": ids(values["index"][rows]),
        "op": ids(op),
        "node": ids(node),
        "module": of.modules(either("module")),
        "parameter": of.parameters(values["tensor"][rows]),
        "line_hash": of.lines.of(either("stack")),
        "happened_at": of.moments(values["t"][rows]),
        "bad": integers(bad),
        **{name: integers(values[name][rows]) for name in COUNTS},
        **{name: reals(values[name][rows]) for name in SIZES},
        "first_bad": ids(first_bad),
    }


# Gradients --------------------------------------------------------------------------------------


def grad_rows(of: RankTrace) -> tuple[StepOrder, dict[str, FleetCells]]:
    """Parameters at each step of their optimizer; then those that got a gradient without one."""
    found = _Gradients(of).columns
    order = of.order(found["step"], found["optimizer_step"], found["place"])
    rows = order.rows
    found = {name: cells[rows] for name, cells in found.items()}
    tensor, value = found["tensor"], found["value"]
    numbers, inverse = distinct_of(tensor)
    titles = texts(of.titles(numbers.tolist())).take(inverse)
    seen, values = value != NONE, of.trace.table(Value)
    at = np.where(seen, value, 0)

    def statistic(name: str) -> Ids:
        cells: Ids = values[name][at] if len(values) else np.zeros(len(rows), np.int64)
        return cells

    norm = np.where(seen, statistic("norm"), np.nan)
    bad = statistic("nan") + statistic("posinf") + statistic("neginf")
    return order, {
        "parameter": titles,
        "optimizer": ids(found["optimizer"]),
        "missing": FleetCells(found["missing"], found["optimizer"] != NONE),
        # What a backward accumulated is not yet averaged over ranks; the optimizer saw the average.
        "norm": reals(np.where(np.isnan(found["grad"]), norm, found["grad"])),
        "sum": reals(found["sums"]),
        "count": FleetCells(statistic("count"), seen),
        "bad": FleetCells(bad, seen),
        **{name: FleetCells(statistic(name), seen) for name in COUNTS[1:]},
        "weight_norm": reals(found["size"]),
        "weight_hash": ids(found["hashes"]),
        "update_norm": reals(found["moved"]),
        "happened_at": of.moments(found["t"]),
        "line_hash": of.lines.of(found["stack"]),
    }


REALS = ("grad", "sums", "size", "moved")
HEADS = ("step", "optimizer_step", "optimizer", "t", "stack")
"""Columns with one value for all parameters of a step of an optimizer."""


class _Gradients:
    """The rows of `grad` in columns, as arrays.

    Arrays are made once, from lists of all rows: making some for each step takes much longer.
    """

    def __init__(self, of: RankTrace) -> None:
        self._seen = last_gradients(of)
        self._heads: list[tuple[int, ...]] = []  # of each step: HEADS
        self._lengths: list[int] = []  # its number of parameters
        self._lists: dict[str, list[Any]] = defaultdict(list)  # of its parameters
        taken = set[tuple[int, int]]()
        for number, optimizer in enumerate(of.trace.once(Acts).optimizers):
            for act in optimizer.steps:
                tensors = optimizer.tensors[: act.facts.many or None]
                self._add(number, tensors, act)
                if self._seen:
                    taken.update((act.step, tensor) for tensor in tensors)
        others = self._others([key for key in self._seen if key not in taken], of.trace)
        own = self._arrays()
        self.columns = {name: np.concatenate([own[name], cells]) for name, cells in others.items()}

    def _add(self, number: int, tensors: tuple[int, ...], act: Done[StepAct]) -> None:
        """The parameters of one step of an optimizer."""
        facts, many, lists = act.facts, len(tensors), self._lists
        self._heads.append((act.step, act.t, number, act.t, act.stack))
        self._lengths.append(many)
        lists["tensor"] += tensors
        if self._seen:
            lists["value"] += [self._seen.get((act.step, each), NONE) for each in tensors]
        else:
            lists["value"] += [NONE] * many
        if facts.none == facts.many > 0:
            lists["missing"] += [True] * many
        else:
            missing = {*act.tensors}
            lists["missing"] += [each in missing for each in tensors]
        lists["hashes"] += _padded(facts.hashes, many, NONE)
        for name in REALS:
            lists[name] += _padded(getattr(facts, name), many, math.nan)

    def _arrays(self) -> dict[str, np.ndarray]:
        lengths = np.array(self._lengths, np.int64)
        heads = np.array(self._heads, np.int64).reshape(-1, len(HEADS))
        found = {name: np.repeat(heads[:, at], lengths) for at, name in enumerate(HEADS)}
        begins = np.repeat(np.cumsum(lengths) - lengths, lengths)
        found["place"] = np.arange(len(begins)) - begins
        for name in ("tensor", "value", "hashes"):
            found[name] = np.array(self._lists[name], np.int64)
        found["missing"] = np.array(self._lists["missing"], bool)
        return found | {name: np.array(self._lists[name], np.float64) for name in REALS}

    def _others(self, keys: list[tuple[int, int]], trace: Trace) -> dict[str, np.ndarray]:
        """Leaves that got a gradient in a step in which no optimizer used it."""
        many, values = len(keys), trace.table(Value)
        at = np.array([self._seen[key] for key in keys], np.int64)
        return {
            "step": np.array([step for step, _ in keys], np.int64),
            "optimizer_step": np.full(many, np.iinfo(np.int64).max),
            "place": np.arange(many),
            "optimizer": np.full(many, NONE),
            "tensor": np.array([tensor for _, tensor in keys], np.int64),
            "value": at,
            "missing": np.zeros(many, bool),
            "t": values["t"][at],
            "stack": np.full(many, NONE),
            "hashes": np.full(many, NONE),
            **{name: np.full(many, np.nan) for name in REALS},
        }


def _padded(cells: tuple[float, ...], many: int, fill: float) -> Sequence[float]:
    """One value per parameter; `fill` for those that were not measured."""
    return cells if len(cells) == many else [*cells[:many], *[fill] * (many - len(cells))]


def last_gradients(of: RankTrace) -> dict[tuple[int, int], int]:
    """The last statistics of each `.grad` in a step: positions in the table, by step and tensor."""
    values, tensors = of.trace.table(Value), of.trace.table(Tensor)
    rows = np.flatnonzero((values["place"] == Place.GRAD) & (values["tensor"] != NONE))
    if not (len(rows) and len(tensors)):
        return {}
    rows = rows[tensors.positions(values["tensor"][rows]) != NONE]
    rows = rows[np.argsort(values["t"][rows], kind="stable")]
    keys = zip(step_of_values(of)[rows].tolist(), values["tensor"][rows].tolist(), strict=True)
    return dict(zip(keys, rows.tolist(), strict=True))
