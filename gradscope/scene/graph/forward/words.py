"""Notes of a picture of a forward graph, also about what the trace lacks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradscope.analysis.graph.forward.calls import ForwardCalls
from gradscope.analysis.graph.forward.flows import Flows
from gradscope.analysis.graph.forward.select import SelectedCalls
from gradscope.analysis.graph.selection import adjacency, reach
from gradscope.analysis.identity.backwards import backward_numbers, backwards
from gradscope.analysis.program.summary import recorded_again
from gradscope.scene.choices import GraphOf
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.readable import ordinal, plural
from gradscope.trace.schema import NONE, Node, Op
from gradscope.trace.text import visible
from gradscope.trace.trace import Trace

ALL = "; --all draws them"
LEFT_OUT = (
    "that fill parameters or data or belong to an optimizer step",
    "made by the engine",
    "that returned their input",
)
"""Why calls are left out (analysis/graph/forward/aside.py)."""

LONGEST = 160
"""Largest number of characters of a command."""


def nothing(trace: Trace) -> str:
    """Why there is nothing to draw."""
    if len(trace.table(Op)):
        return (
            "all forward calls of this trace fill parameters or data or belong to an optimizer "
            f"step (--all draws them); of other calls that created no node, {_how(trace)}"
        )
    return "this trace holds no forward calls; of calls that create no node, " + _how(trace)


def _how(trace: Trace) -> str:
    return f"PyTorch reports the names only at level full: {command(trace, '--level', 'full')}"


def command(trace: Trace, *options: str) -> str:
    """The command that records the program of a trace with other options."""
    return f"`{visible(recorded_again(trace, *options), LONGEST)}`"


def during(trace: Trace) -> dict[int, str]:
    """By number of a backward: the title of the calls made during it."""
    if (trace.table(Op)["task"] == NONE).all():
        return {}
    orders: dict[int, int] = {}  # by graph task: how often what it made was differentiated
    numbers = backward_numbers(trace)
    nodes = trace.table(Node)
    made_in = dict(zip(nodes["id"].tolist(), nodes["task"].tolist(), strict=True))
    onward, _ = adjacency(trace)
    found = {}
    for task in backwards(trace):
        reached = {made_in.get(node, NONE) for node in reach(task.roots, onward)}
        orders[task.id] = 1 + max((orders.get(each, 0) for each in reached), default=0)
        order = "" if orders[task.id] == 1 else f"{ordinal(orders[task.id])} derivatives: "
        graph = " (create_graph)" if task.create_graph else ""
        found[numbers[task.id]] = f"{order}ran in backward {numbers[task.id]}{graph}"
    return found


def notes_of(trace: Trace, selected: SelectedCalls, options: GraphOptions) -> Iterator[str]:
    """Notes: what was left out, what is inferred, which level or engine records more."""
    calls, chosen = trace.once(ForwardCalls), selected.places
    if options.graph is GraphOf.BOTH and not options.everything:
        yield "only calls that created a node are drawn; --graph forward draws all"
    elif any(selected.left_out):
        left_out = zip(selected.left_out, LEFT_OUT, strict=True)
        words = [f"{plural(many, 'call')} {why}" for many, why in left_out if many]
        yield f"not drawn: {', '.join(words)}{ALL}"
    inside = sum(calls.within.get(row, 0) for row in calls.rows[chosen].tolist())
    if inside:
        yield f"{plural(inside, 'call')} ran inside drawn calls"
    yield from _not_known(trace, calls, selected)


def _not_known(trace: Trace, calls: ForwardCalls, selected: SelectedCalls) -> Iterator[str]:
    chosen = selected.places
    absent, inferred = (trace.meta.get(key, ()) for key in ("absent", "inferred"))
    unconnected = np.isin(chosen, calls.unconnected)
    if "op.outputs" in inferred:
        yield "inputs of calls are inferred from the memory addresses of tensors, in call order"
    elif "op.inputs" in inferred and not unconnected.all():
        kept = any(flow.kept for flow in trace.once(Flows).all)
        yield (
            "inputs of calls are inferred from the backward graph and from in-place writes"
            + (", and from saved values" if kept else "")
            + ": data that needs no gradient is missing unless a node saves it"
        )
        if trace.meta.get("level") != "full":
            yield f"calls that created no node are missing: {_how(trace)}"
    if selected.unconnected:
        yield (
            f"not drawn: {plural(selected.unconnected, 'call')} whose inputs were not recorded; "
            f"--all draws them, {command(trace, '--on', 'gradscope')} records the inputs"
        )
    elif unconnected.any():
        yield (
            f"the inputs of {plural(int(unconnected.sum()), 'call')} were not recorded; "
            f"{command(trace, '--on', 'gradscope')} records them"
        )
    if "version" in absent:
        yield "in-place writes are not in this trace; --level engine records them"
    if trace.meta.get("level") == "graph":
        yield "saved values are not in this trace; --level engine records them"
    if len(chosen) and (calls.node[chosen] == NONE).all():
        yield "no call here created a node"
