"""Findings, times, saved values and recorded values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePath

import numpy as np

from gradscope.analysis.findings import Evidence, Finding
from gradscope.analysis.graph.memory import held, periods
from gradscope.analysis.identity.fingerprints import shortened
from gradscope.analysis.identity.found_at import nodes_of
from gradscope.analysis.identity.sites import site_of
from gradscope.analysis.lookups import Ids, member
from gradscope.analysis.report import Report
from gradscope.analysis.timing.by_line import LineTiming
from gradscope.analysis.timing.durations import Timing
from gradscope.scene.readable import shape
from gradscope.scene.report import found_in
from gradscope.scene.viewer.nodes import PageNodes
from gradscope.scene.viewer.text_columns import Table, Texts, ints
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import (
    NONE,
    Edge,
    Frame,
    GraphTask,
    Node,
    Op,
    Place,
    Saved,
    Stack,
    Tensor,
    Value,
)
from gradscope.trace.trace import Trace

NUMBERS = ("min", "max", "mean", "rms", "norm")


def finding_table(scope: PageNodes, findings: Sequence[Finding], texts: Texts) -> Table:
    """The findings of `inspect`, worst first, each with the first node it is about."""
    ids = shortened([each.id for each in findings])
    about = scope.rows(ints(next(nodes_of(scope.trace, each.evidence), NONE) for each in findings))
    made_at = _first_made_at(scope) if np.any(about == NONE) else {}
    nodes = [
        made_at.get(each.site.place, NONE) if row == NONE else row
        for each, row in zip(findings, about.tolist(), strict=True)
    ]
    return {
        "rule": texts.column(each.rule for each in findings),
        "slug": texts.column(each.slug for each in findings),
        "severity": ints(each.severity for each in findings),
        "message": texts.column(each.message for each in findings),
        "why": texts.column(each.why for each in findings),
        "fix": texts.column(each.fix for each in findings),
        "sure": texts.column(each.certainty for each in findings),
        "id": texts.column(ids[each.id] for each in findings),
        "place": texts.column(each.site.place for each in findings),
        "code": texts.column(each.site.text for each in findings),
        "where": texts.column(found_in(each) for each in findings),
        "node": ints(nodes),
        "seq": ints(_seq_of(each.evidence) for each in findings),
    }


def _first_made_at(scope: PageNodes) -> dict[str, int]:
    """The first node of the page created by each line, as in "train.py:41"."""
    stacks, first = np.unique(scope.of("stack"), return_index=True)
    places = {
        site_of(scope.trace, stack).place: row
        for stack, row in sorted(
            zip(stacks.tolist(), first.tolist(), strict=True), key=lambda s: -s[1]
        )
    }
    return {place: row for place, row in places.items() if place}


def _seq_of(evidence: Iterable[Evidence]) -> int:
    return next((each.id for each in evidence if each.table.startswith("event")), NONE)


def slow_tables(trace: Trace, report: Report, texts: Texts) -> dict[str, Table]:
    """Times by line, by name of nodes and operations, and by module."""
    modules = [each for each in report.modules if each.nodes or each.ops]
    return {
        "slow_lines": _lines(trace, report.lines, texts),
        "slow_nodes": _timings(report.nodes, texts),
        "slow_ops": _timings(report.ops, texts),
        "waits": _waits(report, texts),
        "modules": {
            "rank": ints(each.rank for each in modules),
            "name": texts.column(each.name or each.type for each in modules),
            "path": texts.column(each.name for each in modules),
            "type": texts.column(each.type for each in modules),
            "nodes": ints(each.nodes for each in modules),
            "self": ints(each.backward_ns for each in modules),
        },
    }


def _first_frames(trace: Trace) -> dict[tuple[str, int], int]:
    """The first frame of each recorded line."""
    frames = trace.table(Frame)
    found: dict[tuple[str, int], int] = {}
    lines = zip(frames.texts("file"), frames["line"].tolist(), strict=True)
    for row, line in enumerate(lines):
        found.setdefault(line, row)
    return found


def _lines(trace: Trace, lines: Sequence[LineTiming], texts: Texts) -> Table:
    frames = _first_frames(trace)
    return {
        "place": texts.column(each.site.place for each in lines),
        "text": texts.column(each.site.text for each in lines),
        "frame": ints(frames.get((each.site.file, each.site.line), NONE) for each in lines),
        "calls": ints(each.calls for each in lines),
        "ops": ints(each.ops_ns for each in lines),
        "backward": ints(each.backward_ns for each in lines),
        "between": ints(each.between_ns for each in lines),
        "all": ints(each.ns for each in lines),
    }


def _timings(timings: Sequence[Timing], texts: Texts) -> Table:
    return {
        "name": texts.column(each.name for each in timings),
        "count": ints(each.count for each in timings),
        "total": ints(each.total for each in timings),
        "self": ints(each.self for each in timings),
        "longest": ints(each.longest for each in timings),
    }


def _waits(report: Report, texts: Texts) -> Table:
    """The waits between the ranks of a merged trace, the longest first."""
    waits = report.waits.waits
    return {
        "rank": ints(each.rank for each in waits),
        "on": ints(each.on for each in waits),
        "name": texts.column(each.name for each in waits),
        "step": ints(each.step for each in waits),
        "begin": ints(each.begin for each in waits),
        "ns": ints(each.ns for each in waits),
    }


def saved_table(scope: PageNodes, texts: Texts) -> Table:
    table, tensors = scope.trace.table(Saved), scope.trace.table(Tensor)
    node = scope.rows(table["node"])
    mine = np.flatnonzero(node != NONE)
    positions = tensors.positions(table["tensor"][mine])
    some = distinct(positions[positions != NONE])
    sizes, dtypes = tensors.ragged("shape").take(some), trace_texts(scope.trace, some)
    said = {
        place: f"{shape(size)} {dtype}".strip()
        for place, size, dtype in zip(some.tolist(), sizes.tuples(), dtypes, strict=True)
    }
    slots = {id: scope.trace.text(id) for id in distinct(table["slot"][mine]).tolist()}
    return {
        "node": node[mine],
        "slot": texts.column(slots[id] for id in table["slot"][mine].tolist()),
        "shape": texts.column(said.get(place, "") for place in positions.tolist()),
        "bytes": table["bytes"][mine],
        "t": table["t"][mine],
        "released": table["released"][mine],
    }


def holding_table(scope: PageNodes, part: tuple[int, int]) -> Table:
    """The periods for which storages are kept for a backward, by the node that saved each first."""
    found = periods(held(scope.trace))
    node = scope.rows(scope.trace.table(Saved)["node"][found.row])
    since, until = part
    mine = (node != NONE) & (found.begin <= until) & ((found.end == NONE) | (found.end >= since))
    return {
        "node": node[mine],
        "bytes": found.bytes[mine],
        "begin": found.begin[mine],
        "end": found.end[mine],
    }


def trace_texts(trace: Trace, positions: Ids) -> list[str]:
    return trace.texts(trace.table(Tensor)["dtype"][positions])


def value_table(scope: PageNodes, texts: Texts) -> Table:
    """The values that were recorded at the nodes of the page."""
    trace = scope.trace
    table, ops = trace.table(Value), trace.table(Op)
    node = table["node"]
    if len(ops):
        at = ops.positions(table["op"])
        of_op = np.where(at == NONE, NONE, ops["node"][at])
        node = np.where(node == NONE, of_op, node)
    row = scope.rows(node)
    mine = np.flatnonzero((row != NONE) & (row < len(scope.ids)))
    task = table["task"][mine]
    counts = {name: table[name][mine] for name in ("count", "nan", "zero")}
    return {
        "node": row[mine],
        "place": texts.column(_place(place) for place in table["place"][mine].tolist()),
        "index": table["index"][mine],
        "backward": scope.task_rows(task),
        "inf": table["posinf"][mine] + table["neginf"][mine],
        **counts,
        **{name: _float32(table[name][mine]) for name in NUMBERS},
    }


def _float32(numbers: np.ndarray) -> np.ndarray:
    """As the page has them: numbers beyond float32 become Inf."""
    with np.errstate(over="ignore"):
        return numbers.astype(np.float32)


def _place(value: int) -> str:
    place = member(Place, value)
    return "unknown" if place is None else place.name.lower().replace("_", " ")


def source_tables(scope: PageNodes, texts: Texts) -> dict[str, Table]:
    """The call stacks that the page uses, and every source line of the trace."""
    trace = scope.trace
    stacks, frames = trace.table(Stack), trace.table(Frame)
    folder = str(trace.meta.get("cwd", ""))
    files = frames.texts("file")
    return {
        "stacks": {name: stacks[name] for name in ("id", "frame", "parent")},
        "frames": {
            "id": frames["id"],
            "file": texts.column(_short(file, folder) for file in files),
            "line": frames["line"],
            "function": texts.column(frames.texts("function")),
            "text": texts.column(frames.texts("text")),
        },
    }


def _short(file: str, folder: str) -> str:
    path = PurePath(file)
    if folder and path.is_relative_to(folder):
        return str(path.relative_to(folder))
    return "/".join(path.parts[-3:]) if len(path.parts) > 3 else file


def counted(trace: Trace) -> dict[str, int]:
    """The numbers of rows in the whole trace."""
    kinds = {"nodes": Node, "edges": Edge, "backwards": GraphTask}
    return {
        **{word: len(trace.table(kind)) for word, kind in kinds.items()},
        "events": trace.event_count,
    }
