"""How the values of a tensor, and of its gradient, changed over a run."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from gradscope.analysis.answers.meant import tensor_meant
from gradscope.analysis.identity.sites import at, site_of, site_of_row
from gradscope.analysis.identity.steps import step_numbers
from gradscope.analysis.lookups import Ids
from gradscope.analysis.program.acts import Acts
from gradscope.analysis.program.numbers import TensorNumbers
from gradscope.scene.answers.answer import Answer, Topic, filled
from gradscope.scene.cells import Cells
from gradscope.scene.readable import plural
from gradscope.trace.schema import NONE, Node, Op, Place, Tensor, Value
from gradscope.trace.trace import Trace

PLACES = {
    Place.OP_OUTPUT: "result", Place.NODE_INPUT: "gradient received", Place.LEAF: "value",
    Place.NODE_OUTPUT: "gradient sent", Place.BUFFER: "sum of gradients",
    Place.HOOK: "gradient after a hook", Place.GRAD: ".grad", Place.SEED: "initial gradient",
}  # fmt: skip
NOT_RECORDED = "not recorded: statistics of this tensor; use --level values"


def value_history(trace: Trace, wanted: str) -> Answer:
    """The recorded statistics of a tensor, by id or unique name, in the order of time.

    A result that each step computes anew is a new tensor each time: then those of all calls of the
    same operation at the same line are shown.
    """
    row = trace.table(Tensor).row(tensor_meant(trace, wanted))
    values = trace.table(Value)
    chosen = np.flatnonzero(values["tensor"] == row.id) if len(values) else np.zeros(0, np.int64)
    of = ""
    same = _same_line(trace, row)
    if len(same) > len(chosen) and not (row.leaf and row.requires_grad):
        chosen = same
        of = f" of {plural(len(same), 'call')}{at(site_of_row(trace, Op, row.op))}"
    told = tuple(_lines(trace, chosen))
    lines = tuple(line for line, _ in told)
    sections = filled(Topic("values", lines), Topic("gradient", tuple(_of_steps(trace, row.id))))
    notes = () if sections else (NOT_RECORDED,)
    bad = next((line for line, is_bad in told if is_bad), "")
    first = f"; first NaN or Inf: {bad}" if bad else ""
    title = f"{Cells(trace).tensor(row.id)}: {plural(len(lines), 'record')} of values{of}{first}"
    return Answer(title, sections=sections, notes=notes, data=row)


def _same_line(trace: Trace, row: Tensor) -> Ids:
    """Positions of the statistics of results of the same operation at the same line."""
    ops, values = trace.table(Op), trace.table(Value)
    if not (ops.has(row.op) and len(values)):
        return np.zeros(0, np.int64)
    its = ops.index(row.op)
    alike = (ops["name"] == ops["name"][its]) & (ops["stack"] == ops["stack"][its])
    results = (values["place"] == Place.OP_OUTPUT) & np.isin(values["op"], ops["id"][alike])
    return np.flatnonzero(results)


def _lines(trace: Trace, chosen: Ids) -> Iterator[tuple[str, bool]]:
    """For each record, step, what it is, its line and its numbers; and if NaN or Inf is in it."""
    numbers = step_numbers(trace)
    values = trace.table(Value).take(chosen[np.argsort(trace.table(Value)["t"][chosen])])
    for each in values:
        step = numbers.get(each.step)
        where = "" if step is None else f"step {step}, "
        place = site_of_row(trace, Op, each.op) if each.op != NONE else None
        if place is None and each.node != NONE and each.place != Place.GRAD:
            place = site_of_row(trace, Node, each.node)
        what = PLACES.get(Place(each.place), "value")
        line = f"{where}{what}{at(place) if place else ''}: {_numbers(each)} (value {each.id})"
        yield line, bool(each.nan or each.posinf or each.neginf)


def _numbers(each: Value) -> str:
    counts = ("NaN", each.nan), ("Inf", each.posinf), ("−Inf", each.neginf)
    parts = [f"{count:,} of {each.count:,} {name}" for name, count in counts if count]
    said = ("min", each.min), ("max", each.max), ("mean", each.mean), ("norm", each.norm)
    return ", ".join([*parts, *(f"{name} {n:.3g}" for name, n in said if not math.isnan(n))])


def _of_steps(trace: Trace, tensor: int) -> Iterator[str]:
    """The gradient as steps of optimizers recorded it, at level `engine`."""
    acts, numbers = trace.once(Acts), step_numbers(trace)
    for series in trace.once(TensorNumbers).gradients:
        if series.tensor != tensor or not series.acts:
            continue
        for act, rms in zip(series.acts, series.rms.tolist(), strict=True):
            done = acts.by_id[act]
            step = numbers.get(done.step)
            where = "" if step is None else f"step {step}, "
            place = at(site_of(trace, done.stack))
            yield f"{where}.grad in the optimizer's step{place}: rms {rms:.3g} (act {act})"
