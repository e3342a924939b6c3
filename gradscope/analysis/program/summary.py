"""Summary of a trace: the counts and times shown first."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

import numpy as np

from gradscope.analysis.graph.memory import saved_peak
from gradscope.analysis.graph.selection import leaf_nodes
from gradscope.analysis.identity.leaves import NamedLeaf, leaf_of
from gradscope.analysis.identity.steps import steps
from gradscope.analysis.lookups import Ids
from gradscope.analysis.ranks.whose import RankOf
from gradscope.analysis.timing.on_devices import DeviceBackwards, on_devices
from gradscope.analysis.timing.own_work import OwnWorkTimes
from gradscope.analysis.timing.phases import ProgramPart, ops_of
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import (
    NONE,
    Edge,
    Error,
    GraphTask,
    HookBegin,
    Node,
    Op,
    Tensor,
    Thread,
    Version,
)
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class Summary:
    """The counts of one trace."""

    producer: str  # "gradscope 0.1.0"
    level: str
    script: str
    steps: int  # in a merged trace, ranks share a step of one number
    backwards: int  # graph tasks that no other one contains
    nested: int  # graph tasks inside another
    ops: int
    nodes: int
    edges: int
    leaves: int
    tensors: int
    threads: int
    events: int
    hook_calls: int
    in_place_writes: int  # those recorded; on PyTorch, some are missed
    is_partial: bool  # PyTorch below level full: calls without a node are recorded in part
    errors: int
    saved_peak_bytes: int
    forward_ns: int  # time in operations outside of backwards and optimizers
    backward_ns: int
    optimizer_ns: int  # time in operations of optimizer steps
    own_ns: int  # time of gradscope's own compiling, excluded from the others
    ranks: int = 0  # of a merged trace
    on_devices: tuple[DeviceBackwards, ...] = ()  # backwards that were measured there


def summary(trace: Trace) -> Summary:
    meta, own = trace.meta, OwnWorkTimes(trace)
    tasks = trace.table(GraphTask)
    nested = int(np.count_nonzero(tasks["parent"] != NONE))
    producer = f"{meta.get('producer', '')} {meta.get('producer_version', '')}".strip()
    return Summary(
        producer=producer or "unknown",
        level=str(meta.get("level", "unknown")),
        script=str(meta.get("script", "")),
        steps=len({step.number for step in steps(trace)}),
        backwards=len(tasks) - nested,
        nested=nested,
        ops=len(trace.table(Op)),
        nodes=len(trace.table(Node)),
        edges=int(np.count_nonzero(trace.table(Edge)["next"] != NONE)),
        leaves=len(leaves(trace)),
        tensors=len(trace.table(Tensor)),
        threads=len(trace.table(Thread)),
        events=trace.event_count,
        hook_calls=len(trace.table(HookBegin)),
        in_place_writes=len(trace.table(Version)),
        is_partial=not trace.sees("op.why"),
        errors=len(trace.table(Error)),
        saved_peak_bytes=saved_peak(trace).bytes,
        forward_ns=_covered_by_ops(trace, ProgramPart.FORWARD, own),
        backward_ns=_backward_ns(trace, own),
        optimizer_ns=_covered_by_ops(trace, ProgramPart.OPTIMIZER, own),
        own_ns=sum(each.end - each.begin for each in own.stretches),
        ranks=len(trace.once(RankOf).numbers),
        on_devices=on_devices(trace),
    )


def recorded_again(trace: Trace, *options: str) -> str:
    """The command that records the program of a trace with other options."""
    words = [trace.meta.get("script") or "SCRIPT", *trace.meta.get("arguments", ())]
    on = ["--on", "gradscope"] * (trace.meta.get("on") == "gradscope")
    module = ["-m"] * (trace.meta.get("run_as") == "module")
    return shlex.join(["gradscope", "trace", *on, *options, *module, *words])


def leaves(trace: Trace) -> tuple[NamedLeaf, ...]:
    """The leaves that gradients can reach, each once, in the order of their nodes."""
    nodes = trace.table(Node)
    rows = nodes.take(nodes.positions(leaf_nodes(trace)))
    by_tensor = {row.inputs[0]: row for row in reversed(rows) if row.inputs}
    found = (leaf_of(trace, row) for row in reversed(by_tensor.values()))
    return tuple(leaf for leaf in found if leaf and leaf.tensor != NONE)


def _covered_by_ops(trace: Trace, part: ProgramPart, own: OwnWorkTimes) -> int:
    """Time in operations of a part of the program; nested ones count once."""
    ops = trace.table(Op)
    done = ops_of(trace, part) & (ops["end"] != NONE)
    total = 0
    for thread in distinct(ops["thread"][done]).tolist():
        of_thread = done & (ops["thread"] == thread)
        begin, end = ops["begin"][of_thread], ops["end"][of_thread]
        total += _covered(begin, end) - _own_inside(own, thread, begin, end)
    return total


def _own_inside(own: OwnWorkTimes, thread: int, begin: Ids, end: Ids) -> int:
    """Gradscope's own work in these periods of one thread."""
    inside = 0
    for each in own.stretches:
        if each.thread == thread and bool(np.any((begin <= each.begin) & (each.end <= end))):
            inside += each.end - each.begin
    return inside


def _backward_ns(trace: Trace, own: OwnWorkTimes) -> int:
    tasks = trace.table(GraphTask)
    outer = (tasks["parent"] == NONE) & (tasks["end"] != NONE)
    thread, begin, end = (tasks[name][outer] for name in ("thread", "begin", "end"))
    return int(np.sum(end - begin - own.within(thread, begin, end)))


def _covered(begin: np.ndarray, end: np.ndarray) -> int:
    """The total time that the spans cover."""
    if not len(begin):
        return 0
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], np.maximum.accumulate(end[order])
    starts = np.maximum(begin[1:], end[:-1])
    return int(end[0] - begin[0] + np.sum(np.maximum(end[1:] - starts, 0)))
