"""What the lanes of the page's timeline show besides backward: steps, modules, calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gradscope.analysis.identity.steps import steps
from gradscope.analysis.lookups import Ids
from gradscope.analysis.program.modules import module_names
from gradscope.analysis.ranks.whose import RankOf
from gradscope.analysis.timing.durations import look_up
from gradscope.analysis.timing.phases import ProgramPart, ops_of
from gradscope.scene.kinds import kind_of_call
from gradscope.scene.timeline.tracks.modules import (
    ModuleRuns,
    backward_in_order,
    forward_in_order,
    module_runs,
)
from gradscope.scene.viewer.nodes import KINDS, PageNodes
from gradscope.scene.viewer.text_columns import Column, Table, TextColumn, Texts, ints
from gradscope.scene.viewer.times import SAME, Part, Times
from gradscope.trace.schema import NONE, GraphTask, Module, Op, Phase, Span, Step
from gradscope.trace.trace import Trace


def steps_of(trace: Trace, part: Part) -> tuple[Step, ...]:
    """The steps in a period, in the order in which they started."""
    return tuple(
        step
        for step in steps(trace)
        if step.begin < part[1] and (step.end == NONE or step.end > part[0])
    )


def lane_tables(
    times: Times,
    rows: Sequence[Step],
    forward: Mapping[str, Table],
    texts: Texts,
    part: Part,
) -> dict[str, Table]:
    """The steps in these rows, and when modules and the calls outside the forward graph ran."""
    return {
        "steps": _step_table(times.scope.trace, rows, forward),
        "module_runs": _module_table(times, texts, part),
        "other_calls": _other_call_table(times.scope, forward, texts, part),
    }


def _step_table(trace: Trace, rows: Sequence[Step], forward: Mapping[str, Table]) -> Table:
    """The steps of the page. `rank`: NONE in the trace of one process.

    The first step of a process includes the start of the program: it begins here with its first
    span, call of the forward graph or backward.
    """
    ranks = trace.once(RankOf).of(Step.TABLE, ints(row.id for row in rows))
    begins = {row.id: row.begin for row in rows}
    inside = _first_in_steps(trace, _drawn(forward))
    for first in dict(zip(ranks[::-1].tolist(), rows[::-1], strict=True)).values():
        begins[first.id] = max(first.begin, inside.get(first.id, first.begin))
    return {
        "number": ints(row.number for row in rows),
        "rank": ranks,
        "begin": ints(begins[row.id] for row in rows),
        "end": ints(row.end for row in rows),
    }


def _first_in_steps(trace: Trace, drawn: Ids) -> dict[int, int]:
    """When the first span, drawn call or backward of each step began."""
    tasks, spans, ops = trace.table(GraphTask), trace.table(Span), trace.table(Op)
    own = spans["phase"] != Phase.OWN_WORK
    calls = np.isin(ops["id"], drawn)
    step = np.concatenate([tasks["step"], spans["step"][own], ops["step"][calls]])
    begin = np.concatenate([tasks["begin"], spans["begin"][own], ops["begin"][calls]])
    order = np.lexsort((begin, step))
    known, first = np.unique(step[order], return_index=True)
    return dict(zip(known.tolist(), begin[order][first].tolist(), strict=True))


def _drawn(forward: Mapping[str, Table]) -> Ids:
    """The ids of the calls of the forward graph."""
    return _numbers(forward["calls"]["id"]) if forward else np.zeros(0, np.int64)


def step_rows(scope: PageNodes, rows: Sequence[Step]) -> Ids:
    """The row of each backward's step; NONE if it has none."""
    places = {step.id: row for row, step in enumerate(rows)}
    table = scope.trace.table(GraphTask)
    of_task = look_up(table, "step", scope.tasks)
    return ints(places.get(step, NONE) for step in of_task.tolist())


def _module_table(times: Times, texts: Texts, part: Part) -> Table:
    """When modules ran, in the forward pass and in backwards: from their first to their last."""
    trace = times.scope.trace
    both = (forward_in_order(trace), backward_in_order(trace, times.runs))
    found = [_cut(module_runs(trace, ran), part) for ran in both]
    module = np.concatenate([each.module for each in found])
    names = module_names(trace)
    types = {row.id: row.type for row in trace.rows(Module)}
    return {
        "path": texts.column(names[id] for id in module.tolist()),
        "type": texts.column(types[id] for id in module.tolist()),
        "thread": np.concatenate([each.thread for each in found]),
        "begin": np.concatenate([each.begin for each in found]),
        "end": np.concatenate([each.end for each in found]),
        "in_backward": np.repeat([0, 1], [len(each.module) for each in found]),
    }


def _cut(runs: ModuleRuns, part: Part) -> ModuleRuns:
    inside = _is_in(runs.begin, runs.end, part)
    columns = (runs.module, runs.thread, runs.begin, runs.end, runs.step)
    return ModuleRuns(*(column[inside] for column in columns))


def _is_in(begin: Ids, end: Ids, part: Part) -> np.ndarray:
    """Whether a stretch of time has a part in this period."""
    return np.asarray((begin <= part[1]) & (np.maximum(begin, end) >= part[0]))


def _other_call_table(
    scope: PageNodes, forward: Mapping[str, Table], texts: Texts, part: Part
) -> Table:
    """The calls that are not in the forward graph: inner ones, those of hooks and optimizers."""
    trace = scope.trace
    table = trace.table(Op)
    drawn = _drawn(forward)
    begin, end = table.array("begin"), table.array("end")
    rows = np.flatnonzero(~np.isin(table.array("id"), drawn) & _is_in(begin, end, part))
    rows = rows[np.argsort(begin[rows], kind="stable")]
    names = [trace.text(name).partition(".")[0] for name in table.array("name")[rows].tolist()]
    kinds = {name: KINDS.index(kind_of_call(name)) for name in set(names)}
    of_part = np.zeros(len(table), np.int64)
    for number, each in enumerate(ProgramPart):
        of_part[ops_of(trace, each)] = number
    return {
        "name": texts.column(names),
        "kind": ints(kinds[name] for name in names),
        "thread": table.array("thread")[rows],
        "begin": begin[rows],
        "end": end[rows],
        "node": scope.rows(table.array("node")[rows]),
        "part": of_part[rows],
    }


def same_times(nodes: Table, forward: Mapping[str, Table]) -> Table:
    """The table of nodes without the times of calls that the table of calls has, too."""
    if not forward:
        return nodes
    made, took = (_numbers(forward["calls"][name]) for name in ("made", "op_ns"))
    mine = _numbers(nodes["op_ns"])
    calls = np.flatnonzero(made != NONE)
    same = np.full(len(mine), NONE, np.int64)
    same[made[calls]] = took[calls]
    return {**nodes, "op_ns": np.where((same == mine) & (same != NONE), SAME, mine)}


def _numbers(column: Column | TextColumn) -> Ids:
    return column.places if isinstance(column, TextColumn) else column
