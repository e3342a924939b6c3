"""The backward graph: nodes, edges and runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from gradscope.analysis.graph.took_part import NodesInBackwards, took_part
from gradscope.analysis.identity.backwards import backward_numbers
from gradscope.analysis.identity.leaves import NamedLeaf, leaf_of
from gradscope.analysis.identity.names import NodeNames, node_names
from gradscope.analysis.identity.sites import Site, site_of
from gradscope.analysis.identity.steps import step_numbers
from gradscope.analysis.lookups import Ids
from gradscope.analysis.program.arguments import arguments_of, in_words
from gradscope.analysis.program.modules import module_names
from gradscope.analysis.timing.durations import Runs, node_runs
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, Edge, GraphTask, Node, Saved, Tensor
from gradscope.trace.trace import Trace

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NodeRun:
    """One execution of a node."""

    task: int
    backward: int  # its number
    position: int  # 1 for the first node the graph task ran
    ns: int  # NONE when it did not end
    self_ns: int  # without the nodes run inside it


@dataclass(frozen=True, slots=True)
class TensorMeta:
    """Facts about a tensor of a node: a gradient it receives, or a value it saved."""

    shape: Shape
    dtype: str


@dataclass(frozen=True, slots=True)
class NodeSaved:
    """One value that a node saves for backward."""

    id: int
    slot: str
    meta: TensorMeta | None
    bytes: int
    released: bool


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One backward function, with everything that a picture may show."""

    id: int
    name: str
    unique: str
    leaf: NamedLeaf | None
    inputs: tuple[TensorMeta | None, ...]
    module: str  # as in `module_names`; "" if created in none
    site: Site
    step: int  # the step's number; NONE outside of steps
    made_in: int  # the number of the backward that created it (double backward), or NONE
    sequence_nr: int
    root: bool  # a graph task starts here
    runs: tuple[NodeRun, ...]
    backwards: tuple[int, ...]  # the numbers of those it took part in
    captured: bool  # its gradient was requested by `inputs=`
    inside: int  # the CopySlices that ran it, or NONE
    saved: tuple[NodeSaved, ...]
    given: str = ""  # as in "dim=0": arguments of its call besides tensors, if recorded


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """An edge, along which a gradient flows."""

    node: int
    index: int  # which output of `node`
    next: int
    input_nr: int
    meta: TensorMeta | None  # of the gradient


@dataclass(frozen=True, slots=True)
class Graph:
    """Some nodes of a trace and the edges between them."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]


def graph(
    trace: Trace,
    ids: Iterable[int],
    tasks: Collection[int] | None = None,
    parts: NodesInBackwards | None = None,
) -> Graph:
    """The graph of the given nodes, in the given order, with the runs of the given tasks.

    `parts`: how nodes took part in these tasks, if already known.
    """
    order = list(dict.fromkeys(ids))
    table = trace.table(Node)
    rows = table.take(np.array([table.index(id) for id in order], np.int64))
    metas = _metas_of_nodes(trace, order)
    runs = _runs_of(trace, node_runs(trace), order, tasks)
    build = _Build(trace, order, metas, runs, parts or took_part(trace, tasks))
    return Graph(tuple(map(build.node, rows)), _edges(trace, rows, metas))


class _Build:
    """Look-ups shared by all nodes of one graph."""

    def __init__(
        self,
        trace: Trace,
        order: list[int],
        metas: Mapping[int, TensorMeta],
        runs: Mapping[int, list[NodeRun]],
        parts: NodesInBackwards,
    ) -> None:
        self.trace = trace
        self.metas = metas
        self.site = cache(partial(site_of, trace))
        self.names: NodeNames = node_names(trace)
        self.steps = step_numbers(trace)
        self.backwards = backward_numbers(trace)
        self.modules = module_names(trace)
        self.roots = {root for task in trace.rows(GraphTask) for root in task.roots}
        self.runs = runs
        self.parts = parts
        self.saved = saved_of(trace, order, metas)

    def node(self, row: Node) -> GraphNode:
        return GraphNode(
            id=row.id,
            name=row.name,
            unique=self.names.of(row.id),
            leaf=leaf_of(self.trace, row),
            inputs=tuple(map(self.metas.get, row.inputs)),
            module=self.modules.get(row.module, ""),
            site=self.site(row.stack),
            step=self.steps.get(row.step, NONE),
            made_in=self.backwards.get(row.task, NONE),
            sequence_nr=row.sequence_nr,
            root=row.id in self.roots,
            runs=tuple(self.runs.get(row.id, ())),
            backwards=self.parts.backwards.get(row.id, ()),
            captured=row.id in self.parts.captured,
            inside=self.parts.inside.get(row.id, NONE),
            saved=tuple(self.saved[row.id]),
            given=in_words(arguments_of(row.arguments)),
        )


def _metas_of_nodes(trace: Trace, order: list[int]) -> dict[int, TensorMeta]:
    """Shape and dtype of the tensors that these nodes receive or save, where recorded."""
    nodes, saved = trace.table(Node), trace.table(Saved)
    inputs = nodes.ragged("inputs").take(nodes.positions(np.array(order, np.int64)))
    kept = saved["tensor"][np.isin(saved["node"], order)]
    return metas_of(trace, np.concatenate([inputs.values, kept]))


def metas_of(trace: Trace, wanted: Ids) -> dict[int, TensorMeta]:
    """Shape and dtype of these tensors, where recorded."""
    tensors = trace.table(Tensor)
    ids = distinct(wanted)
    positions = tensors.positions(ids)
    known = positions != NONE
    shapes = tensors.ragged("shape").take(positions[known]).tuples()
    dtypes = trace.texts(tensors["dtype"][positions[known]])
    return dict(zip(ids[known].tolist(), map(TensorMeta, shapes, dtypes), strict=True))


def _runs_of(
    trace: Trace, runs: Runs, order: list[int], tasks: Collection[int] | None
) -> dict[int, list[NodeRun]]:
    numbers = backward_numbers(trace)
    found: dict[int, list[NodeRun]] = defaultdict(list)
    mask = np.isin(runs.node, order)
    if tasks is not None:
        mask &= np.isin(runs.task, sorted(tasks))
    columns = (runs.node, runs.task, runs.position, runs.ns, runs.self_ns)
    for node, task, position, ns, self_ns in zip(
        *(column[mask].tolist() for column in columns), strict=True
    ):
        found[node].append(NodeRun(task, numbers.get(task, NONE), position, ns, self_ns))
    return found


def saved_of(
    trace: Trace, order: list[int], metas: Mapping[int, TensorMeta]
) -> dict[int, list[NodeSaved]]:
    """The saved values of each node."""
    table = trace.table(Saved)
    found: dict[int, list[NodeSaved]] = defaultdict(list)
    for row in table.take(np.flatnonzero(np.isin(table["node"], order))):
        meta = metas.get(row.tensor)
        released = row.released != NONE
        found[row.node].append(NodeSaved(row.id, row.slot, meta, row.bytes, released))
    return found


def _edges(
    trace: Trace, rows: list[Node], metas: Mapping[int, TensorMeta]
) -> tuple[GraphEdge, ...]:
    table = trace.table(Edge)
    inputs_of = {row.id: row.inputs for row in rows}
    order = list(inputs_of)
    inside = np.isin(table["node"], order) & np.isin(table["next"], order)
    found = []
    for row in table.take(np.flatnonzero(inside)):
        inputs = inputs_of[row.next]
        tensor = inputs[row.input_nr] if 0 <= row.input_nr < len(inputs) else NONE
        found.append(GraphEdge(row.node, row.index, row.next, row.input_nr, metas.get(tensor)))
    return tuple(found)
