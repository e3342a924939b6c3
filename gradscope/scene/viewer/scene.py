"""A trace as the page shows it: the whole, or one step or backward of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

import numpy as np

from gradscope.analysis.graph.selection import Selection
from gradscope.analysis.ranks.heat import rank_steps
from gradscope.analysis.ranks.whose import RankOf, on_ranks
from gradscope.analysis.report import inspect
from gradscope.analysis.timing.passages import PassageState
from gradscope.errors import EmptyTraceError
from gradscope.scene.choices import GraphOf
from gradscope.scene.graph.graph import NO_GRADIENT
from gradscope.scene.timeline.rank_heat import heat_columns
from gradscope.scene.timeline.rank_lanes import exchange_columns
from gradscope.scene.viewer.comparison import Against
from gradscope.scene.viewer.first_view import (
    limits,
    opening,
    said_of_steps,
    some_steps,
    summary_facts,
)
from gradscope.scene.viewer.forward import forward_tables
from gradscope.scene.viewer.groups import FORM_NAMES, GroupForm, Groups
from gradscope.scene.viewer.lanes import lane_tables, same_times, step_rows, steps_of
from gradscope.scene.viewer.nodes import KINDS, MARKS, PageNodes, edge_table, node_table, scope_of
from gradscope.scene.viewer.regions import region_tables
from gradscope.scene.viewer.reports import (
    counted,
    finding_table,
    holding_table,
    saved_table,
    slow_tables,
    source_tables,
    value_table,
)
from gradscope.scene.viewer.text_columns import (
    Json,
    Table,
    Texts,
    ViewerScene,
    shown,
)
from gradscope.scene.viewer.times import (
    arrival_table,
    backward_table,
    critical_table,
    event_table,
    hook_table,
    mark_table,
    memory_table,
    part_of_time,
    queue_table,
    run_table,
    sleep_table,
    span_table,
    start_of,
    thread_table,
    times_of,
)
from gradscope.trace.file.progress import tell
from gradscope.trace.schema import NONE, Node, Step
from gradscope.trace.trace import Trace

VERSION = 1
MOMENTS = frozenset(("t", "begin", "end", "released"))
"""Columns of times, which are relative to the start of the page."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """A trace that the page's trace is compared with; names of both, the earlier first."""

    trace: Trace
    names: tuple[str, str]


def viewer_scene(
    trace: Trace,
    selection: Selection | None = None,
    earlier: Earlier | None = None,
    graph: GraphOf = GraphOf.BACKWARD,
) -> ViewerScene:
    """Everything that the page shows, or the selected part. `graph`: the one shown first."""
    report, selection = inspect(trace), selection or Selection()
    if earlier is None:
        selection = some_steps(trace, selection, report)
    scope = scope_of(trace, selection)
    part = replace(selection, around=None)
    against = None if earlier is None else _against(scope, part, earlier)
    texts = Texts()
    times, during = times_of(scope), part_of_time(scope, selection)
    steps = steps_of(trace, during)
    tell("finding loops")
    groups, of_node = Groups(trace, scope.columns).table(texts)
    tell("collecting the contents of the page")
    forward, said = forward_tables(scope, selection, texts)
    if not forward:
        _check_backward(trace, graph, str(said["absent"]))
    tables: dict[str, Table] = {
        "nodes": same_times(node_table(scope, of_node, texts), forward),
        "edges": edge_table(scope, texts),
        "groups": groups,
        "backwards": {**backward_table(times, texts), "in_step": step_rows(scope, steps)},
        "runs": run_table(times),
        "events": event_table(times),
        "critical": critical_table(times),
        "queue": queue_table(times),
        "hooks": hook_table(times, texts),
        "arrivals": arrival_table(times, texts),
        "sleeps": sleep_table(times),
        "spans": span_table(scope, texts, during),
        **lane_tables(times, steps, forward, texts, during),
        "marks": mark_table(scope, texts, during),
        "memory": memory_table(scope, during),
        "threads": thread_table(trace, texts),
        "saved": saved_table(scope, texts),
        "holdings": holding_table(scope, during),
        "values": value_table(scope, texts),
        "findings": finding_table(scope, report.findings, texts),
        **slow_tables(trace, report, texts),
        **region_tables(trace, texts),
        **source_tables(scope, texts),
        **forward,
        **(against.tables(texts) if against else {}),
        **(against.calls(forward["calls"], part, texts) if against and forward else {}),
    }
    by_step, by_rank = _ranks_by_step(trace, steps)
    facts = _facts(scope, selection) | {"forward": said, "heat": by_step}
    facts["summary"] = summary_facts(trace, report)
    facts["opens"] = opening(scope, report, tables["findings"], tables["backwards"])
    some = said_of_steps(trace, selection)
    facts["limits"] = [*some, *limits(trace, report, said, tables)]
    facts["begins"] = str(graph if len(trace.table(Node)) else GraphOf.FORWARD)
    facts |= {"compared": against.facts(report.findings)} if against else {}
    tables = _from_start(tables | by_rank, start_of(trace))
    return ViewerScene(facts, tables, texts.all(), some)


def _against(scope: PageNodes, part: Selection, earlier: Earlier) -> Against:
    tell("comparing the traces")
    return Against(scope, scope_of(earlier.trace, part), earlier.names)


def _ranks_by_step(trace: Trace, shown: Sequence[Step]) -> tuple[Json, dict[str, Table]]:
    """The ranks of a merged trace by step: words and numbers."""
    found = trace.once(rank_steps)
    if found is None or not shown:
        return None, {}
    facts, columns = heat_columns(found, {step.number for step in shown})
    return facts, {"rank_steps": columns, "exchanges": exchange_columns(trace)}


def _check_backward(trace: Trace, graph: GraphOf, absent: str) -> None:
    """Raise if a page without a forward graph would be empty, or is to open with one."""
    if not len(trace.table(Node)):
        raise EmptyTraceError(f"{NO_GRADIENT}, and {absent}")
    if graph is GraphOf.FORWARD:
        raise EmptyTraceError(absent)


def _from_start(tables: dict[str, Table], start: int) -> dict[str, Table]:
    """The tables with times that count from the start of the page."""
    return {
        name: {
            key: np.where(column == NONE, NONE, column - start)
            if key in MOMENTS and isinstance(column, np.ndarray)
            else column
            for key, column in table.items()
        }
        for name, table in tables.items()
    }


def _facts(scope: PageNodes, selection: Selection) -> dict[str, Json]:
    trace, meta = scope.trace, scope.trace.meta
    script = str(meta.get("script", ""))
    return {
        "version": VERSION,
        "script": shown(PurePath(script).name) or "trace",
        "file": shown(trace.file_name) or "trace.json",
        "level": shown(meta.get("level", "")),
        "producer": shown(f"{meta.get('producer', '')} {meta.get('producer_version', '')}".strip()),
        "part": _part(trace, selection),
        "ranks": list(trace.once(RankOf).numbers),
        "clock": shown(meta.get("clock", "")),
        "whole": counted(trace),
        "lanes": [shown(title) for title in scope.lanes.titles],
        "kinds": [str(kind) for kind in KINDS],
        "marks": [str(mark) for mark in MARKS],
        "forms": [FORM_NAMES.get(form, form.name.lower()) for form in GroupForm],
        "states": [state.name.lower() for state in PassageState],
        "events": [kind.TABLE.removeprefix("event.") for kind in trace.event_kinds],
    }


def _part(trace: Trace, selection: Selection) -> str:
    parts = []
    if selection.step is not None:
        parts.append(f"{selection.words}{on_ranks(trace)}")
    if selection.backward is not None:
        parts.append(f"backward {selection.backward}")
    return ", ".join(parts)
