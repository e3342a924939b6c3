"""The tables `value` and `grad`."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from gradscope.analysis.lookups import Ids
from gradscope.analysis.program.acts import Acts, Done, Optimizer
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
    parts = _Gradients(of)
    found = {name: np.concatenate(cells) for name, cells in parts.columns.items()}
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


class _Gradients:
    """The rows of `grad` in columns, each a list of arrays."""

    def __init__(self, of: RankTrace) -> None:
        self.columns: dict[str, list[np.ndarray]] = defaultdict(list)
        self._seen = last_gradients(of)
        taken = set[tuple[int, int]]()
        for number, optimizer in enumerate(of.trace.once(Acts).optimizers):
            for act in optimizer.steps:
                taken.update((act.step, tensor) for tensor in self._add(number, optimizer, act))
        self._add_others([key for key in self._seen if key not in taken], of.trace)

    def _add(self, number: int, optimizer: Optimizer, act: Done[StepAct]) -> tuple[int, ...]:
        """The parameters of one step of an optimizer."""
        tensors = optimizer.tensors[: act.facts.many or None]
        many, missing = len(tensors), {*act.tensors}
        nowhere = act.facts.none == act.facts.many > 0
        self._put(
            step=np.full(many, act.step),
            optimizer_step=np.full(many, act.t),
            place=np.arange(many),
            optimizer=np.full(many, number),
            tensor=np.array(tensors, np.int64),
            value=np.array([self._seen.get((act.step, each), NONE) for each in tensors], np.int64),
            missing=np.array([nowhere or each in missing for each in tensors], bool),
            t=np.full(many, act.t),
            stack=np.full(many, act.stack),
            hashes=_padded(act.facts.hashes, many, NONE, np.int64),
            **{name: _padded(getattr(act.facts, name), many, np.nan, float) for name in REALS},
        )
        return tensors

    def _add_others(self, keys: list[tuple[int, int]], trace: Trace) -> None:
        """Leaves that got a gradient in a step in which no optimizer used it."""
        many, values = len(keys), trace.table(Value)
        at = np.array([self._seen[key] for key in keys], np.int64)
        self._put(
            step=np.array([step for step, _ in keys], np.int64),
            optimizer_step=np.full(many, np.iinfo(np.int64).max),
            place=np.arange(many),
            optimizer=np.full(many, NONE),
            tensor=np.array([tensor for _, tensor in keys], np.int64),
            value=at,
            missing=np.zeros(many, bool),
            t=values["t"][at],
            stack=np.full(many, NONE),
            hashes=np.full(many, NONE),
            **{name: np.full(many, np.nan) for name in REALS},
        )

    def _put(self, **cells: np.ndarray) -> None:
        for name, values in cells.items():
            self.columns[name].append(values)


def _padded(cells: tuple[float, ...], many: int, fill: float, kind: type) -> np.ndarray:
    """One value per parameter; `fill` for those that were not measured."""
    found: np.ndarray = np.full(many, fill, kind)
    given: np.ndarray = np.array(cells[:many], kind)
    found[: len(given)] = given
    return found


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
