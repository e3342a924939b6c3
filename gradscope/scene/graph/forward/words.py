"""What a picture of a forward graph says of calls as a whole, and of what is not in its trace."""

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
    "in which parameters or data are filled or an optimizer steps",
    "of the engine's",
    "that returned what they were given",
)
"""Why calls are left out (analysis/graph/forward/aside.py)."""

LONGEST = 160
"""A command is shown up to so many characters."""


def nothing(trace: Trace) -> str:
    """Why there is nothing to draw."""
    if len(trace.table(Op)):
        return (
            "in all forward calls of this trace parameters or data are filled or an optimizer "
            f"steps (--all draws them); if there were others that made no node, {_how(trace)}"
        )
    return "this trace holds no forward calls; if there were some that made no node, " + _how(trace)


def _how(trace: Trace) -> str:
    return f"PyTorch names them only at full level: {command(trace, '--level', 'full')}"


def command(trace: Trace, *options: str) -> str:
    """What to type to record the program of a trace in another way."""
    return f"`{visible(recorded_again(trace, *options), LONGEST)}`"


def during(trace: Trace) -> dict[int, str]:
    """By number of a backward: what its calls are to the program's own."""
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
    """What was left out, what is inferred, and which level or engine tells more."""
    calls, chosen = trace.once(ForwardCalls), selected.places
    if options.graph is GraphOf.BOTH and not options.everything:
        yield "only calls that made a node; --graph forward draws all"
    elif any(selected.left_out):
        left_out = zip(selected.left_out, LEFT_OUT, strict=True)
        words = [f"{plural(many, 'call')} {why}" for many, why in left_out if many]
        yield f"without {', '.join(words)}{ALL}"
    inside = sum(calls.within.get(row, 0) for row in calls.rows[chosen].tolist())
    if inside:
        yield f"{plural(inside, 'call')} ran inside those that are drawn"
    yield from _not_known(trace, calls, selected)


def _not_known(trace: Trace, calls: ForwardCalls, selected: SelectedCalls) -> Iterator[str]:
    chosen = selected.places
    absent, inferred = (trace.meta.get(key, ()) for key in ("absent", "inferred"))
    unconnected = np.isin(chosen, calls.unconnected)
    if "op.outputs" in inferred:
        yield "which tensor a call was given is inferred from where it lay, in the order of calls"
    elif "op.inputs" in inferred and not unconnected.all():
        kept = any(flow.kept for flow in trace.once(Flows).all)
        yield (
            "what calls were given is inferred from the backward graph and from writes"
            + (", and from what nodes keep" if kept else "")
            + ": data that needs no gradient is missing where nothing keeps it"
        )
        if trace.meta.get("level") != "full":
            yield f"calls that made no node are missing: {_how(trace)}"
    if selected.unconnected:
        yield (
            f"without {plural(selected.unconnected, 'call')} of which it is not recorded what "
            f"they were given; --all draws them, {command(trace, '--on', 'gradscope')} records it"
        )
    elif unconnected.any():
        yield (
            f"{plural(int(unconnected.sum()), 'call')} of which it is not recorded what they were "
            f"given; {command(trace, '--on', 'gradscope')} records it"
        )
    if "version" in absent:
        yield "writes in place are not in this trace; --level engine records them"
    if trace.meta.get("level") == "graph":
        yield "what nodes keep is not in this trace; --level engine records it"
    if len(chosen) and (calls.node[chosen] == NONE).all():
        yield "no call here made a node"
