"""A birth's place in words, with the source line to look at."""

from __future__ import annotations

from dataclasses import dataclass

from gradscope.analysis.births import Birth
from gradscope.analysis.leaves import leaf
from gradscope.analysis.names import node_names
from gradscope.analysis.sites import Site, site_of
from gradscope.trace.run import Trace
from gradscope.trace.schema import GraphTask, HookBegin, Node, Op, Place


@dataclass(frozen=True, slots=True)
class PlaceInWords:
    """A birth's place, as in "in the backward of LogBackward0"."""

    words: str
    function: str  # whose mathematics is to blame: "log", "LogBackward0", or ""
    site: Site


def describe(trace: Trace, birth: Birth) -> PlaceInWords:
    """Where a NaN or an Inf was born."""
    node = node_names(trace).title(birth.node)
    made = _site_of_node(trace, birth.node)
    match birth.place:
        case Place.OP_OUTPUT:
            return _of_op(trace, birth)
        case Place.NODE_OUTPUT:
            return PlaceInWords(f"in the backward of {node}", _function(trace, birth.node), made)
        case Place.BUFFER:
            words = f"in the sum of the gradients that arrive at input {birth.index} of {node}"
            return PlaceInWords(words, "", made)
        case Place.HOOK:
            return _of_hook(trace, birth, node)
        case Place.GRAD:
            words = f"in the addition to `.grad` of {_leaf(trace, birth)}"
            return PlaceInWords(words, "", _called(trace, birth))
        case Place.SEED:
            words = "in the gradient that backward was called with"
            return PlaceInWords(words, "", _called(trace, birth))
        case Place.LEAF:
            return PlaceInWords(
                f"outside: {_leaf(trace, birth)} came with it", "", _made(trace, birth)
            )
        case Place.NODE_INPUT:
            return PlaceInWords(f"on the way to {node}", "", made)


def _of_op(trace: Trace, birth: Birth) -> PlaceInWords:
    ops = trace.table(Op)
    if not ops.has(birth.op):
        return PlaceInWords("in a forward call", "", Site())
    op = ops.row(birth.op)
    name = op.name.partition(".")[0]
    return PlaceInWords(f"in the forward call {name}", name, site_of(trace, op.stack))


def _of_hook(trace: Trace, birth: Birth, node: str) -> PlaceInWords:
    """The call that ended at the event of the value is the last one begun before it."""
    table = trace.table(HookBegin)
    before = (table["task"] == birth.task) & (table["node"] == birth.node)
    before &= table["seq"] <= birth.seq
    places = before.nonzero()[0]
    if not len(places):
        return PlaceInWords(f"in a hook of {node}", "", _site_of_node(trace, birth.node))
    call = table.at(int(places[table["seq"][places].argmax()]))
    site = site_of(trace, call.stack)
    return PlaceInWords(f"in the hook {call.name or '(unnamed)'} on {node}", "", site)


def _leaf(trace: Trace, birth: Birth) -> str:
    found = leaf(trace, birth.tensor)
    return found.title if found else node_names(trace).title(birth.node)


def _function(trace: Trace, node: int) -> str:
    nodes = trace.table(Node)
    return nodes.row(node).name if nodes.has(node) else ""


def _site_of_node(trace: Trace, node: int) -> Site:
    nodes = trace.table(Node)
    return site_of(trace, nodes.row(node).stack) if nodes.has(node) else Site()


def _called(trace: Trace, birth: Birth) -> Site:
    tasks = trace.table(GraphTask)
    return site_of(trace, tasks.row(birth.task).stack) if tasks.has(birth.task) else Site()


def _made(trace: Trace, birth: Birth) -> Site:
    ops = trace.table(Op)
    return site_of(trace, ops.row(birth.op).stack) if ops.has(birth.op) else Site()
