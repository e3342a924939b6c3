"""The figures of `inspect`: the trace in two lines, tables of the slowest parts, the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from gradscope.analysis.answers.compiled_facts import CompiledFacts
from gradscope.analysis.findings import Finding, Severity
from gradscope.analysis.program.modules import ModuleFacts
from gradscope.analysis.program.summary import Summary
from gradscope.analysis.ranks.alike import RanksAlike
from gradscope.analysis.ranks.whose import listed
from gradscope.analysis.report import Report
from gradscope.analysis.timing.by_line import LineTiming
from gradscope.analysis.timing.durations import Timing
from gradscope.analysis.timing.long_run import LongRun
from gradscope.scene.graph.blocks.region_words import named
from gradscope.scene.readable import byte_count, count, duration, plural
from gradscope.scene.table_scenes import Cell, TableColumn, TableScene
from gradscope.scene.timeline.waits import wait_table
from gradscope.trace.schema import NONE, Phase

T = TypeVar("T")
FEW_GROUPS = 4
"""Number of groups of ranks that the headline describes."""


def report_tables(report: Report, rows: int) -> tuple[TableScene, ...]:
    """The summary tables that are not empty, each with at most `rows` rows."""
    made = (
        wait_table(report.waits, rows),
        _regions(report.compiled, rows),
        _recompiled(report.compiled, rows),
        _lines(report.lines, rows),
        _timings("slowest nodes of backward", report.nodes, rows),
        _noted(
            _timings("slowest operations of forward", report.ops, rows),
            "calls without a node: recorded in part" if report.summary.is_partial else "",
        ),
        _timings("slowest operations during backward", report.backward_ops, rows),
        _timings("slowest operations of optimizers", report.optimizer_ops, rows),
        _modules(report.modules, rows),
    )
    return tuple(table for table in made if table.rows)


def headline(report: Report) -> tuple[str, ...]:
    facts = report.summary
    recorded = f"recorded by {facts.producer} at level {facts.level}"
    first = f"{facts.script} · {recorded}" if facts.script else recorded
    counted = [
        _steps(facts, report.run),
        plural(facts.backwards, "backward"),
        f"{count(facts.nested)} nested" if facts.nested else "",
        plural(facts.nodes, "node"),
        plural(facts.ops, "operation"),
        plural(facts.events, "event"),
        plural(facts.hook_calls, "hook call") if facts.hook_calls else "",
        _writes(facts),
        plural(facts.errors, "error") if facts.errors else "",
    ]
    measured = [
        f"forward {duration(facts.forward_ns)}" if facts.forward_ns else "",
        f"backward {duration(facts.backward_ns)}" if facts.backward_ns else "",
        f"optimizers {duration(facts.optimizer_ns)}" if facts.optimizer_ns else "",
        f"compilation by gradscope {duration(facts.own_ns)} (not counted)" if facts.own_ns else "",
        f"saved tensors at most {byte_count(facts.saved_peak_bytes)}"
        if facts.saved_peak_bytes
        else "",
    ]
    times = _listed(measured) + " (all ranks together)" * bool(facts.ranks)
    devices = (
        f"on {each.device}: {plural(each.backwards, 'backward')} took {duration(each.ns)}"
        + f", {duration(each.between_ns)} between them" * bool(each.between_ns)
        for each in facts.on_devices
    )
    times = times if _listed(measured) else ""
    lines = (first, _listed(counted), times, *devices, _alike(report.ranks))
    return tuple(line for line in lines if line)


def _alike(groups: Sequence[RanksAlike]) -> str:
    """As in "ranks 0 to 6 alike; rank 7: 2 steps, 2 backwards, 22 nodes, 2 collectives"."""
    shown = [_group(group, counted=len(groups) > 1) for group in groups[:FEW_GROUPS]]
    left = sum(len(group.ranks) for group in groups[FEW_GROUPS:])
    if left:
        shown.append(f"and {plural(left, 'more rank')}")
    return "; ".join(shown)


def _group(group: RanksAlike, *, counted: bool) -> str:
    words = listed(group.ranks) + " alike" * (len(group.ranks) > 1)
    parts = [
        plural(group.steps, "step"),
        plural(group.backwards, "backward"),
        plural(group.nodes, "node"),
        plural(group.collectives, "collective"),
    ]
    if group.ending not in {"", "ok"}:
        parts.append(f"ended with {group.ending.partition(':')[0]}")
    if counted or len(parts) > 4:
        return f"{words}: {', '.join(parts)}"
    return f"{words} in nodes and collectives"


def _steps(facts: Summary, run: LongRun | None) -> str:
    """As in "3 steps on 2 ranks", or "3 of 2,000 steps"."""
    ranks = plural(facts.ranks, "rank") if facts.ranks else ""
    if not facts.steps:
        return ranks
    steps = plural(facts.steps, "step")
    if run is not None and run.has_left_out:
        steps = f"{count(facts.steps)} of {plural(run.steps, 'step')}"
    return " on ".join(part for part in (steps, ranks) if part)


def _writes(facts: Summary) -> str:
    least = "at least " if facts.is_partial else ""
    return f"{least}{plural(facts.in_place_writes, 'in-place write')}" * bool(facts.in_place_writes)


def _listed(parts: Iterable[str]) -> str:
    return ", ".join(part for part in parts if part)


def _timings(title: str, timings: Sequence[Timing], rows: int) -> TableScene:
    whole = sum(timing.self for timing in timings) or 1
    columns = (
        TableColumn("name"),
        TableColumn("runs", is_number=True),
        TableColumn("own time", is_number=True),
        TableColumn("share", is_number=True),
        TableColumn("longest", is_number=True),
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


def _lines(lines: Sequence[LineTiming], rows: int) -> TableScene:
    columns = (
        TableColumn("line"),
        TableColumn("calls", is_number=True),
        TableColumn("operations", is_number=True),
        TableColumn("backward", is_number=True),
        TableColumn("between", is_number=True),
    )
    table = _table(
        "slowest lines",
        columns,
        lines,
        rows,
        lambda line: (
            f"{line.site.place} {line.site.text}",
            count(line.calls) if line.calls else "",
            duration(line.ops_ns) if line.ops_ns else "",
            duration(line.backward_ns) if line.backward_ns else "",
            duration(line.between_ns) if line.between_ns else "",
        ),
    )
    return _noted(table, "between: time before its calls")


def _noted(table: TableScene, note: str) -> TableScene:
    return replace(table, note="; ".join(filter(None, (table.note, note))))


def _regions(facts: CompiledFacts, rows: int) -> TableScene:
    columns = (
        TableColumn("region"),
        TableColumn("function"),
        TableColumn("forward", is_number=True),
        TableColumn("backward", is_number=True),
        TableColumn("kernels", is_number=True),
        TableColumn("kept", is_number=True),
        TableColumn("nodes", is_number=True),
    )
    table = _table(
        "compiled regions",
        columns,
        facts.regions,
        rows,
        lambda region: (
            str(region.id),
            named(region),
            count(len(region.part(Phase.FORWARD))),
            count(len(region.part(Phase.BACKWARD))),
            count(len(region.kernels)) if region.kernels else "",
            count(len(region.kept)),
            count(region.nodes),
        ),
    )
    return _noted(table, "forward, backward: operations; inspect --compiled shows them")


def _recompiled(facts: CompiledFacts, rows: int) -> TableScene:
    columns = TableColumn("line"), TableColumn("what"), TableColumn("why")
    broken = dict.fromkeys((str(each.site), "graph break", each.reason) for each in facts.breaks)
    again = [
        (f"{each.site}", f"{each.function} compiled again", "; ".join(each.reasons))
        for each in facts.again
    ]
    title = "graph breaks and recompilations"
    return _table(title, columns, [*broken, *again], rows, lambda cells: cells)


def _modules(modules: Sequence[ModuleFacts], rows: int) -> TableScene:
    ranked = any(module.rank != NONE for module in modules)
    columns = (
        *[TableColumn("rank")] * ranked,
        TableColumn("module", is_path=True),
        TableColumn("type"),
        TableColumn("parameters", is_number=True),
        TableColumn("nodes", is_number=True),
        TableColumn("forward", is_number=True),
        TableColumn("backward", is_number=True),
    )
    ordered = sorted(
        (module for module in modules if module.nodes or module.ops),
        key=lambda module: (-module.forward_ns - module.backward_ns, module.id),
    )
    return _table(
        "slowest modules",
        columns,
        ordered,
        rows,
        lambda module: (
            *[str(module.rank)] * ranked,
            module.name or "(root)",
            module.type,
            count(module.parameters),
            count(module.nodes),
            duration(module.forward_ns),
            duration(module.backward_ns),
        ),
    )


def _table(
    title: str,
    columns: tuple[TableColumn, ...],
    items: Sequence[T],
    rows: int,
    cells: Callable[[T], tuple[Cell, ...]],
) -> TableScene:
    left = len(items) - rows
    note = f"and {count(left)} more; --rows N for more" if left > 0 else ""
    return TableScene(title, columns, tuple(cells(item) for item in items[:rows]), note)


# The verdict ------------------------------------------------------------------------------


def by_severity(findings: Sequence[Finding]) -> list[str]:
    """How many findings there are of each severity, the worst first: "1 error", "2 warnings"."""
    counts = Counter(finding.severity for finding in findings)
    return [
        plural(counts[severity], severity.name.lower())
        for severity in sorted(Severity, reverse=True)
        if counts[severity]
    ]


def nothing_found(report: Report) -> str:
    """The verdict of a report without findings, or with notes only."""
    if not report.checked:
        return "no rule could be checked"
    held, notes = report.summary, plural(len(report.notes), "note")
    rules = plural(len(report.checked), "rule")
    if not (held.nodes or held.events or report.notes):
        what = "no autograd graph was recorded" if held.ops else "nothing was recorded"
        ended = f"; the script ended with exit code {report.exit_code}" if report.exit_code else ""
        return f"{what} ({rules} checked){ended}"
    new = "new " * bool(report.known)
    if report.notes:
        return f"{rules} checked, {new}{notes}"
    return f"{rules} checked, no {new}problems found"


def verdict(report: Report, rows: int = 0) -> str:
    """How many rules were checked, and what they found. `rows`: how many are shown; 0: all."""
    if not report.findings:
        return nothing_found(report)
    rules = plural(len(report.checked), "rule")
    parts = by_severity(report.at_least(Severity.WARNING))
    left = len(report.findings) - rows if rows else 0
    hidden = f"; {count(left)} of them not shown, use --rows N for more" if left > 0 else ""
    if not parts:
        return nothing_found(report) + hidden
    notes = f", {plural(len(report.notes), 'note')}" * bool(report.notes)
    new = "new: " * bool(report.known)
    return f"{rules} checked, {new}{', '.join(parts)} found{notes}{hidden}"


def found_in(finding: Finding) -> str:
    """ "rank 1, step 3, Head.forward": the rank, steps and function, if known."""
    rank = f"rank {finding.ranks[0]}" if len(finding.ranks) == 1 else ""
    where = rank, steps_in_words(finding.steps), finding.function
    return ", ".join(each for each in where if each)


def steps_in_words(numbers: Sequence[int]) -> str:
    """ "step 3", "steps 3 and 5" or "steps 3 to 7"; "" for none."""
    if len(numbers) < 2:
        return "".join(f"step {number}" for number in numbers)
    if len(numbers) == 2:
        return f"steps {numbers[0]} and {numbers[1]}"
    between = "to" if numbers[-1] - numbers[0] == len(numbers) - 1 else "…"
    return f"steps {numbers[0]} {between} {numbers[-1]}"
