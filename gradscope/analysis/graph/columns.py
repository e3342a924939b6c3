"""A graph as arrays, for fast operations on all its nodes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from gradscope.analysis.graph.selection import Selected, leaf_nodes
from gradscope.analysis.identity.backwards import backward_numbers
from gradscope.analysis.lookups import Ids
from gradscope.analysis.ranks.whose import RankOf
from gradscope.analysis.timing.durations import own_ns
from gradscope.trace.schema import NONE, Edge, Node
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class GraphColumns:
    """Nodes in the order of creation, and the edges between them by place."""

    id: Ids  # rising
    rank: Ids  # the place of the node in the selected order
    name: Ids  # the text's number
    stack: Ids
    module: Ids
    step: Ids  # the id of the step in which it was created, or NONE
    made_in: Ids  # the number of the backward that created it, or NONE
    leaf: np.ndarray
    beside: np.ndarray  # a leaf that receives a gradient from a node here: drawn next to it
    own_ns: Ids  # time of its runs, excluding nodes run inside them
    hidden: Ids  # number of edges to or from nodes that were not selected
    tail: Ids  # of each edge: the place of the node whose gradient it is
    head: Ids  # and of the one it goes to
    whose: Ids  # the rank of the process, in a merged trace; else NONE

    def places(self, ids: Collection[int]) -> Ids:
        """The places of these nodes; unknown ones are left out."""
        wanted = np.fromiter(ids, np.int64, len(ids))
        found = np.searchsorted(self.id, wanted)
        known = found < len(self.id)
        known[known] = self.id[found[known]] == wanted[known]
        return found[known]


def graph_columns(trace: Trace, selected: Selected) -> GraphColumns:
    """The selected nodes, with the runs of the selected graph tasks."""
    chosen = np.array(selected.nodes, np.int64)
    order = np.argsort(chosen, kind="stable")
    ids = chosen[order]
    nodes = trace.table(Node)
    rows = nodes.positions(ids)
    numbers = backward_numbers(trace)
    made_in = [numbers.get(task, NONE) for task in nodes["task"][rows].tolist()]
    leaf = np.isin(ids, leaf_nodes(trace))
    tail, head, hidden = _edges(trace, ids)
    used = np.zeros(len(ids), bool)
    used[head] = True
    return GraphColumns(
        id=ids,
        rank=order,
        name=nodes["name"][rows],
        stack=nodes["stack"][rows],
        module=nodes["module"][rows],
        step=nodes["step"][rows],
        made_in=np.array(made_in, np.int64),
        leaf=leaf,
        beside=leaf & used,
        own_ns=own_ns(trace, ids, selected.tasks),
        hidden=hidden,
        tail=tail,
        head=head,
        whose=trace.once(RankOf).of(Node.TABLE, ids),
    )


def _edges(trace: Trace, ids: Ids) -> tuple[Ids, Ids, Ids]:
    """The edges between these nodes, and the number of other edges of each node."""
    edges = trace.table(Edge)
    if not len(ids):
        return ids, ids, ids
    ends = [edges["node"], edges["next"]]
    places = [np.minimum(np.searchsorted(ids, end), len(ids) - 1) for end in ends]
    inside = [ids[place] == end for place, end in zip(places, ends, strict=True)]
    both = inside[0] & inside[1]
    leaving = inside[0] & ~inside[1] & (ends[1] != NONE)
    coming = inside[1] & ~inside[0]
    hidden = np.bincount(places[0][leaving], minlength=len(ids))
    hidden += np.bincount(places[1][coming], minlength=len(ids))
    return places[0][both], places[1][both], hidden
