"""The forward graph of the page: calls, their inputs, and the nodes they created."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from gradscope.analysis.graph.forward.calls import ForwardCalls
from gradscope.analysis.graph.forward.facts import data_of
from gradscope.analysis.graph.forward.forward_columns import ForwardColumns, forward_columns
from gradscope.analysis.graph.forward.select import SelectedCalls, select_calls
from gradscope.analysis.graph.selection import Selection
from gradscope.analysis.identity.leaves import leaf
from gradscope.analysis.identity.steps import step_numbers
from gradscope.analysis.lookups import Ids, member
from gradscope.analysis.program.modules import module_names
from gradscope.scene.choices import GraphOf
from gradscope.scene.graph.forward.arrows import kept_as
from gradscope.scene.graph.forward.boxes import WHY, versions
from gradscope.scene.graph.forward.marks import marks_of_calls
from gradscope.scene.graph.forward.scene import lanes_of_calls
from gradscope.scene.graph.forward.words import ALL, notes_of, nothing
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.kinds import NodeKind, kind_of_call
from gradscope.scene.viewer.groups import Groups
from gradscope.scene.viewer.nodes import KINDS, MARKS, PageNodes, shapes
from gradscope.scene.viewer.text_columns import Json, Table, Texts, ints, shown
from gradscope.scene.viewer.times import start_of
from gradscope.trace.schema import NONE, Why
from gradscope.trace.trace import Trace

NO_NODE = "no node"
SAME = -2
"""Stands for a stack: the one of the node that the call created."""


def forward_tables(
    scope: PageNodes, selection: Selection, texts: Texts
) -> tuple[dict[str, Table], dict[str, Json]]:
    """The tables of the forward graph, and notes; only notes if it is empty."""
    trace = scope.trace
    part = replace(selection, around=None)
    selected = select_calls(trace, part, everything=False)
    if not len(selected.places):
        return {}, {"absent": shown(nothing(trace))}
    columns = forward_columns(trace, selected)
    groups, of_call = Groups(trace, columns.graph).table(texts)
    options = GraphOptions(selection=part, graph=GraphOf.FORWARD)
    lanes = lanes_of_calls(trace, columns)
    calls = _call_table(scope, selected, columns, of_call, texts)
    return {
        "calls": {**calls, "lane": lanes.column(columns.graph.id)},
        "flows": _flow_table(trace, columns, texts),
        "call_groups": groups,
    }, {
        "notes": [shown(note.removesuffix(ALL)) for note in notes_of(trace, selected, options)],
        "lanes": [shown(title) for title in lanes.titles],
        "in_order": not columns.flows,
    }


def _call_table(
    scope: PageNodes, selected: SelectedCalls, columns: ForwardColumns, groups: Ids, texts: Texts
) -> Table:
    """Calls, followed by data that no call created: the columns of nodes, and more."""
    trace, calls, graph = scope.trace, scope.trace.once(ForwardCalls), columns.graph
    places, data = selected.places, data_of(trace, columns.data.values())
    given = [data[tensor] for tensor in columns.data.values()]
    none, nothing = np.full(len(given), NONE, np.int64), np.zeros(len(given), np.int64)
    names = [calls.names[place] for place in places.tolist()]
    steps, modules = step_numbers(trace), module_names(trace)
    outputs = [calls.outputs[place] for place in places.tolist()]
    first = ints([*(each[0] if each else NONE for each in outputs), *columns.data.values()])
    made = np.concatenate([scope.rows(calls.node[places]), none])
    alike = (
        (made != NONE) & (scope.of("stack")[made] == graph.stack) if len(scope.ids) else made > 0
    )
    graph_ns = calls.end[places] - calls.begin[places]
    kind_of = {name: kind_of_call(name) for name in set(names)}
    kinds = [kind_of[name] for name in names]
    kinds += [NodeKind.LEAF if each.parameter else NodeKind.OTHER for each in given]
    return {
        "id": np.concatenate([calls.id[places], ints(columns.data.values())]),
        "name": texts.column(
            [*names, *("gradient" if each.gradient else "data" for each in given)]
        ),
        "behind": np.concatenate([_behind(names, calls.ordinals[places]), nothing]),
        "kind": ints(KINDS.index(kind) for kind in kinds),
        "group": groups,
        "stack": np.where(alike, SAME, graph.stack),
        "leaf": texts.column([*("" for _ in names), *(each.title for each in given)]),
        "is_leaf": graph.beside.astype(np.int64),
        "guessed": ints([*(0 for _ in names), *(each.guessed for each in given)]),
        "step": ints(steps.get(each, NONE) for each in graph.step.tolist()),
        "made_in": graph.made_in,
        "module": texts.column(modules.get(each, "") for each in graph.module.tolist()),
        "sequence": np.full(len(graph.id), NONE, np.int64),
        "shape": texts.column(shapes(trace, first)),
        "op": texts.column("" for _ in graph.id),
        "op_ns": np.concatenate([np.where(calls.end[places] == NONE, NONE, graph_ns), none]),
        "idle": np.concatenate([_idle(trace, calls, places), none]),
        "is_data": np.repeat([0, 1], [len(places), len(given)]),
        "thread": np.concatenate([calls.ops["thread"][calls.rows[places]], none]),
        "marks": _marks(calls, selected, graph.id),
        "results": ints([*map(len, outputs), *(1 for _ in given)]),
        "made": made,
        "why": texts.column([*_reasons(trace, calls, places), *("" for _ in given)]),
        "writes": texts.column([*_writes(trace, calls, places), *("" for _ in given)]),
        "inside": ints([*_inside(calls, places), *nothing.tolist()]),
    }


def _idle(trace: Trace, calls: ForwardCalls, places: Ids) -> Ids:
    """The time from the end of the call before, or from the start of the page, to each call.

    It takes less room than the times at which calls started, and the page adds it up.
    """
    begin, end = calls.begin[places] - start_of(trace), calls.end[places] - start_of(trace)
    before = np.maximum(begin, end)
    return begin - np.concatenate([[0], before[:-1]]) if len(places) else begin


def _behind(names: list[str], ordinals: Ids) -> Ids:
    """The ordinal of each call minus the number of calls with its name so far: mostly 0."""
    seen: Counter[str] = Counter()
    found = []
    for name, ordinal in zip(names, ordinals.tolist(), strict=True):
        seen[name] += 1
        found.append(ordinal - seen[name])
    return ints(found)


def _flow_table(trace: Trace, columns: ForwardColumns, texts: Texts) -> Table:
    """Tensors passed between calls: a row for each pair."""
    place = {id: row for row, id in enumerate(columns.graph.id.tolist())}
    pairs = {
        (place[user], place[source]): flow
        for flow, (user, source) in zip(reversed(columns.flows), reversed(columns.ids), strict=True)
        if source != NONE
    }
    flows = list(pairs.values())
    if not flows:
        return _order_table(columns, texts)
    known = shapes(trace, ints(flow.tensor for flow in flows))
    return {
        "tail": ints(user for user, _ in pairs),
        "head": ints(source for _, source in pairs),
        "output": ints(flow.output for flow in flows),
        "input": np.zeros(len(flows), np.int64),
        "shape": texts.column(
            "" if flow.output == 0 or flow.maker == NONE else shape
            for flow, shape in zip(flows, known, strict=True)
        ),  # of first results, and of data: that of what it comes from
        "how": texts.column(
            kept_as(flow.kept) if flow.kept else "shares memory" if flow.shared else ""
            for flow in flows
        ),
    }


def _order_table(columns: ForwardColumns, texts: Texts) -> Table:
    """If no inputs of calls were recorded: each call follows the one before it."""
    rows = np.arange(len(columns.graph.id))
    nothing = np.zeros(max(len(rows) - 1, 0), np.int64)
    return {
        "tail": rows[1:],
        "head": rows[:-1],
        "output": nothing - 1,
        "input": nothing,
        "shape": texts.column("" for _ in nothing),
        "how": texts.column("" for _ in nothing),
    }


def _marks(calls: ForwardCalls, selected: SelectedCalls, ids: Ids) -> Ids:
    found = np.zeros(len(ids), np.int64)
    marks = marks_of_calls(calls, selected)
    rows = {place: row for row, place in enumerate(ids.tolist())}
    for place in marks.marks:
        if place in rows:
            found[rows[place]] = sum(1 << MARKS.index(mark) for mark in marks.of((place,)))
    return found


def _reasons(trace: Trace, calls: ForwardCalls, places: Ids) -> list[str]:
    """Why a call created no node; "" for those that created one."""
    observed = trace.sees("op.why")
    whys = calls.ops["why"][calls.rows[places]].tolist()
    words = {
        why: WHY.get(member(Why, why) if observed else None, NO_NODE) for why in dict.fromkeys(whys)
    }
    nodes = calls.node[places].tolist()
    return ["" if node != NONE else words[why] for node, why in zip(nodes, whys, strict=True)]


def _writes(trace: Trace, calls: ForwardCalls, places: Ids) -> list[str]:
    found = []
    for place in places.tolist():
        writes = calls.written(place)
        if not writes:
            found.append("")
            continue
        named = ((leaf(trace, write.tensor), write) for write in writes)
        found.append(", ".join(versions(known.name if known else "", w) for known, w in named))
    return found


def _inside(calls: ForwardCalls, places: Ids) -> list[int]:
    return [calls.within.get(row, 0) for row in calls.rows[places].tolist()]
