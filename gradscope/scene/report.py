"""What `inspect` says in figures: the trace in two lines, and what took longest in tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from gradscope.analysis.modules import ModuleFacts
from gradscope.analysis.report import Report
from gradscope.analysis.timing.durations import Timing
from gradscope.scene.tables import Cell, Column, TableScene
from gradscope.scene.words import byte_count, count, duration, plural

T = TypeVar("T")


def report_tables(report: Report, rows: int) -> tuple[TableScene, ...]:
    """The summary tables that have something in them, each of at most so many rows."""
    made = (
        _timings("slowest nodes of backward", report.nodes, rows),
        _timings("slowest operations of forward", report.ops, rows),
        _timings("slowest operations during backward", report.backward_ops, rows),
        _timings("slowest operations of optimizers", report.optimizer_ops, rows),
        _modules(report.modules, rows),
    )
    return tuple(table for table in made if table.rows)


def headline(report: Report) -> tuple[str, ...]:
    """The trace in two lines."""
    facts = report.summary
    recorded = f"recorded by {facts.producer} at level {facts.level}"
    first = f"{facts.script} · {recorded}" if facts.script else recorded
    counted = [
        plural(facts.steps, "step") if facts.steps else "",
        plural(facts.backwards, "backward"),
        f"{count(facts.nested)} nested" if facts.nested else "",
        plural(facts.nodes, "node"),
        plural(facts.ops, "operation"),
        plural(facts.events, "event"),
        plural(facts.hook_calls, "hook call") if facts.hook_calls else "",
        plural(facts.in_place_writes, "in-place write") if facts.in_place_writes else "",
        plural(facts.errors, "error") if facts.errors else "",
    ]
    measured = [
        f"forward {duration(facts.forward_ns)}" if facts.forward_ns else "",
        f"backward {duration(facts.backward_ns)}" if facts.backward_ns else "",
        f"optimizers {duration(facts.optimizer_ns)}" if facts.optimizer_ns else "",
        f"saved at most {byte_count(facts.saved_peak_bytes)}" if facts.saved_peak_bytes else "",
    ]
    lines = (first, _listed(counted), _listed(measured))
    return tuple(line for line in lines if line)


def _listed(parts: Iterable[str]) -> str:
    return ", ".join(part for part in parts if part)


def _timings(title: str, timings: Sequence[Timing], rows: int) -> TableScene:
    whole = sum(timing.self for timing in timings) or 1
    columns = (
        Column("name"),
        Column("runs", is_number=True),
        Column("own time", is_number=True),
        Column("share", is_number=True),
        Column("longest", is_number=True),
    )
    return _table(
        title,
        columns,
        timings,
        rows,
        lambda timing: (
            timing.name,
            count(timing.count),
            duration(timing.self),
            f"{timing.self / whole:.0%}",
            duration(timing.longest),
        ),
    )


def _modules(modules: Sequence[ModuleFacts], rows: int) -> TableScene:
    columns = (
        Column("module"),
        Column("type"),
        Column("parameters", is_number=True),
        Column("nodes", is_number=True),
        Column("backward", is_number=True),
    )
    names = names_of(modules)
    ordered = sorted(
        (module for module in modules if module.nodes or module.ops),
        key=lambda module: (-module.backward_ns, module.id),
    )
    return _table(
        "slowest modules",
        columns,
        ordered,
        rows,
        lambda module: (
            names[module.id],
            module.type,
            count(module.parameters),
            count(module.nodes),
            duration(module.backward_ns),
        ),
    )


def names_of(modules: Sequence[ModuleFacts]) -> dict[int, str]:
    """The paths of modules; of several models each begins with its model, as in "Generator.0"."""
    by_id = {module.id: module for module in modules}
    roots = {module.id: _root(module, by_id) for module in modules}
    models = _models([by_id[root] for root in dict.fromkeys(roots.values())])
    if len(models) < 2:
        return {module.id: module.path or "(root)" for module in modules}
    return {
        module.id: f"{models[roots[module.id]]}.{module.path}".rstrip(".") for module in modules
    }


def _models(roots: Sequence[ModuleFacts]) -> dict[int, str]:
    """What to call each model: by its type, and from the second of a type on with a number."""
    seen: Counter[str] = Counter()
    names = {}
    for root in roots:
        seen[root.type] += 1
        number = seen[root.type]
        names[root.id] = f"{root.type}#{number}" if number > 1 else root.type
    return names


def _root(module: ModuleFacts, by_id: dict[int, ModuleFacts]) -> int:
    """The id of the model a module is a part of: the nearest around it whose path is empty."""
    around = {module.id}
    while module.path and module.parent in by_id and module.parent not in around:
        module = by_id[module.parent]
        around.add(module.id)
    return module.id


def _table(
    title: str,
    columns: tuple[Column, ...],
    items: Sequence[T],
    rows: int,
    cells: Callable[[T], tuple[Cell, ...]],
) -> TableScene:
    left = len(items) - rows
    note = f"and {count(left)} more; --rows N for more" if left > 0 else ""
    return TableScene(title, columns, tuple(cells(item) for item in items[:rows]), note)
