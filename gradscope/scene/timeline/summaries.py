"""Loss, gradients and updates over the steps of a run, also of steps that were not recorded."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, isnan

from gradscope.analysis.timing.long_run import LongRun, SummedUp
from gradscope.scene.readable import count, number
from gradscope.scene.table_scenes import TableColumn, TableScene
from gradscope.scene.timeline.run_words import summary_words

MANY = 50
"""Number of measured steps from which a run is long, even if all its steps were recorded."""

HEADS = ("loss", "gradient norm", "weight norm", "update")


def training_table(run: LongRun | None, rows: int) -> TableScene | None:
    """Some measured steps, spread evenly over the run; None if the run is not long."""
    if run is None or not run.measured:
        return None
    if not run.has_left_out and len(run.measured) < MANY:
        return None
    shown = _chosen(run.measured, rows)
    bad = any(each.is_bad for each in shown)
    columns = (
        TableColumn("step"),
        *(TableColumn(head, is_number=True) for head in HEADS),
        *[TableColumn("not finite")] * bad,
    )
    cells = tuple((*_cells(each), *[each.what * each.is_bad] * bad) for each in shown)
    return TableScene("training", columns, cells, "; ".join(_notes(run)))


def _chosen(measured: Sequence[SummedUp], rows: int) -> list[SummedUp]:
    """At most this many steps at even distances, and the first one that is not finite."""
    whole = [each for each in measured if each.row.parameters] or measured
    last = measured[-1]
    if whole[-1] is not last and last.has_loss:
        whole = [*whole, last]
    most = min(max(rows, 2), len(whole))
    first, end = whole[0].number, whole[-1].number
    places = [first + (end - first) * place / max(most - 1, 1) for place in range(most)]
    chosen = {each.step.id: each for each in (_nearest(whole, place) for place in places)}
    bad = next((each for each in measured if each.is_bad), None)
    if bad is not None:
        chosen[bad.step.id] = bad
    return sorted(chosen.values(), key=lambda each: (each.step.begin, each.number))


def _nearest(measured: Sequence[SummedUp], place: float) -> SummedUp:
    return min(measured, key=lambda each: abs(each.number - place))


def _cells(each: SummedUp) -> tuple[str, ...]:
    row = each.row
    measured = row.parameters > 0
    return (
        count(each.number),
        _value(row.loss) if each.has_loss else "",
        _value(row.gradient) if measured and not isnan(row.gradient) else "",
        _value(row.weight) if measured and not isnan(row.weight) else "",
        f"{row.update:.2%}" if measured and isfinite(row.update) else "",
    )


def _value(value: float) -> str:
    if isnan(value):
        return "NaN"
    return number(value) if isfinite(value) else "Inf" if value > 0 else "-Inf"


def _notes(run: LongRun) -> list[str]:
    notes = [summary_words(run)]
    if run.rank >= 0:
        notes.append(f"of rank {run.rank}")
    return notes
