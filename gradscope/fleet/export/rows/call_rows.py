"""The tables `op` and `collective`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import orjson

from gradscope.analysis.lookups import Ids
from gradscope.analysis.ranks.collectives import MAKE_GROUPS, ONE_TO_ONE, REDUCES
from gradscope.analysis.timing.durations import durations, took
from gradscope.analysis.timing.own_work import OwnWorkTimes
from gradscope.analysis.timing.phases import ProgramPart, ops_of
from gradscope.fleet.export.cells import FleetCells, coded, ids, integers, nothing, reals, texts
from gradscope.fleet.export.rows.rank_trace import RankTrace, StepOrder, shape_text
from gradscope.fleet.export.rows.step_rows import waited
from gradscope.trace.ragged import Ragged
from gradscope.trace.schema import (
    NONE,
    BackendWork,
    Collective,
    Op,
    Phase,
    ProcessGroup,
    Span,
    Tensor,
    Why,
)
from gradscope.trace.schema.sharding import GOES_ON
from gradscope.trace.trace import Trace

REASONS = [why.name.lower() for why in Why]
PARTS = (ProgramPart.FORWARD, ProgramPart.BACKWARD, ProgramPart.OPTIMIZER)


def op_rows(of: RankTrace) -> tuple[StepOrder, dict[str, FleetCells]]:
    """Forward calls, in the order in which they began."""
    trace = of.trace
    ops = trace.table(Op)
    order = of.order(ops.array("step"), ops.array("begin"), ops.array("id"))
    rows = order.rows
    ns, own = _times(trace)
    outputs = ops.ragged("outputs").take(rows)
    first = np.full(len(rows), NONE, np.int64)
    some = outputs.lengths > 0
    first[some] = outputs.values[outputs.offsets[:-1][some]]
    shapes, dtypes = of.shapes(first)
    why = ops["why"][rows]
    told = trace.sees("op.why")
    inside = (why > Why.MADE) & (why < len(REASONS)) & told
    part = np.zeros(len(ops), np.int64)
    for number, each in enumerate(PARTS):
        part[ops_of(trace, each)] = number
    return order, {
        "id": integers(ops["id"][rows]),
        "name": of.text(ops, "name", rows),
        "part": coded(part[rows], [each.value for each in PARTS]),
        "begin_at": of.moments(ops["begin"][rows]),
        "end_at": of.moments(ops["end"][rows]),
        "ns": ids(ns[rows]),
        "self_ns": ids(own[rows]),
        "node": ids(ops["node"][rows]),
        "why": coded(np.where(inside, why, NONE), REASONS),
        "dtype": dtypes,
        "shape": shapes,
        "bytes": _bytes(trace, outputs),
        "module": of.modules(ops["module"][rows]),
        "line_hash": of.lines.of(ops["stack"][rows]),
        "thread": ids(ops["thread"][rows]),
        "task": ids(ops["task"][rows]),
    }


def _times(trace: Trace) -> tuple[Ids, Ids]:
    """The time of each call, and without those inside, in the order of the table."""
    ops = trace.table(Op)
    order = np.argsort(ops["begin"], kind="stable")
    thread, begin, end = (ops[name][order] for name in ("thread", "begin", "end"))
    ns, own = took(trace.once(OwnWorkTimes), thread, begin, end)
    found = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    found[0][order], found[1][order] = ns, own
    return found


def _bytes(trace: Trace, outputs: Ragged) -> FleetCells:
    """The bytes of all outputs of each call; NULL for a call without one."""
    tensors = trace.table(Tensor)
    if not len(tensors):
        return nothing(len(outputs))
    at = tensors.positions(outputs.values)
    each = np.where(at == NONE, 0, tensors["bytes"][at])
    total = np.concatenate([np.zeros(1, np.int64), np.cumsum(each)])
    found = total[outputs.offsets[1:]] - total[outputs.offsets[:-1]]
    return FleetCells(found, outputs.lengths > 0)


# Collectives ------------------------------------------------------------------------------------

STATISTICS = {"norm": "norms", "sum": "sums", "bad": "bad", "hash": "hashes"}


def collective_rows(of: RankTrace) -> tuple[StepOrder, dict[str, FleetCells]]:
    """Collectives, sends and receives, in the order in which this rank began them."""
    trace = of.trace
    table = trace.table(Span)
    chosen = np.flatnonzero(table["phase"] == Phase.COLLECTIVE)
    cells = {name: table[name][chosen] for name in ("id", "name", "thread", "step", "begin", "end")}
    order = of.order(cells["step"], cells["begin"], cells["id"])
    cells = {name: each[order.rows] for name, each in cells.items()}
    spans = cells["id"].tolist()
    passed = {row.span: row for row in trace.rows(Collective)}
    rows = [passed.get(span, Collective()) for span in spans]
    known = np.array([span in passed for span in spans], bool)
    names = trace.texts(cells["name"])
    kinds = [_kind(*each) for each in zip(names, rows, strict=True)]
    groups = {row.id: row for row in trace.rows(ProcessGroup)}
    group = [groups.get(row.group) for row in rows]
    ns = durations(cells["begin"], cells["end"])
    own = trace.once(OwnWorkTimes).within(cells["thread"], cells["begin"], cells["end"])
    found = {
        "span": integers(cells["id"]),
        "name": texts([name.removesuffix(GOES_ON) for name in names]),
        "asynchronous": integers(np.array([name.endswith(GOES_ON) for name in names], bool)),
        "waits": integers(waited(trace)[chosen][order.rows]),
        "kind": texts(kinds),
        "nth": ids(_nth(cells["begin"].tolist(), kinds, [row.group for row in rows], known)),
        "group_name": texts([each.name if each else None for each in group]),
        "group_ranks": texts([shape_text(each.members) if each else None for each in group]),
        "caller": texts([row.caller for row in rows]),
        "bucket": ids(np.array([row.bucket for row in rows], np.int64)),
        "holds": texts([row.holds for row in rows]),
        "parameters": _names(of, [row.parameters for row in rows]),
        "reduces": texts([row.reduces for row in rows]),
        "shape": texts([shape_text(row.shape) if row.dtype else "" for row in rows]),
        "dtype": texts([row.dtype for row in rows]),
        "begin_at": of.moments(cells["begin"]),
        "end_at": of.moments(cells["end"]),
        "ns": ids(np.where(ns == NONE, NONE, np.maximum(ns - own, 0))),
        **_works(of, spans),
        "line_hash": of.lines.of(np.array([row.stack for row in rows], np.int64)),
        "thread": ids(cells["thread"]),
    }
    return order, found


def _kind(name: str, row: Collective) -> str:
    """How ranks align a call: see the table."""
    plain = name.removesuffix(GOES_ON)
    if plain in ONE_TO_ONE:
        return "one_to_one"
    if row.caller == REDUCES and plain != name:
        return "ddp"
    return "groups" if name in MAKE_GROUPS else "other"


def _nth(
    begin: Sequence[int], kinds: Sequence[str], groups: Sequence[int], known: np.ndarray
) -> Ids:
    """The place of each call among those of its kind in its group."""
    counted: Counter[tuple[str, int]] = Counter()
    found = np.full(len(begin), NONE, np.int64)
    for at in sorted(range(len(begin)), key=begin.__getitem__):
        if known[at] and groups[at] != NONE:
            key = kinds[at], groups[at]
            found[at] = counted[key]
            counted[key] += 1
    return found


def _names(of: RankTrace, tensors: Sequence[tuple[int, ...]]) -> FleetCells:
    """Names of leaves as JSON lists; NULL for none."""
    made: dict[tuple[int, ...], str] = {}
    for each in tensors:
        if each and each not in made:
            made[each] = orjson.dumps(of.titles(each)).decode()
    return texts([made.get(each) for each in tensors])


def _works(of: RankTrace, spans: Sequence[int]) -> Mapping[str, FleetCells]:
    """What the backend did; of several works of a call, the first."""
    works: dict[int, BackendWork] = {}
    for row in of.trace.rows(BackendWork):
        works.setdefault(row.span, row)
    rows = [works.get(span, BackendWork()) for span in spans]
    found = {
        "backend_begin_at": of.moments(np.array([row.begin for row in rows], np.int64)),
        "backend_end_at": of.moments(np.array([row.end for row in rows], np.int64)),
    }
    for name, column in STATISTICS.items():
        for place, when in enumerate(("before", "after")):
            cells = [getattr(row, column) for row in rows]
            known = np.array([len(each) > place for each in cells], bool)
            if name in {"norm", "sum"}:
                values = [each[place] if len(each) > place else math.nan for each in cells]
                found[f"{name}_{when}"] = reals(np.array(values, np.float64))
            else:
                numbers = [each[place] if len(each) > place else 0 for each in cells]
                found[f"{name}_{when}"] = FleetCells(np.array(numbers, np.int64), known)
    return found
