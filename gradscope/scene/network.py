"""The backward graph with all its nodes, unfolded, for programs that work with graphs."""

from __future__ import annotations

from dataclasses import dataclass, fields
from os import PathLike
from typing import Any, TypeAlias

import numpy as np

from gradscope.analysis.graph.selection import Selection, select
from gradscope.analysis.identity.backwards import backward_numbers
from gradscope.analysis.identity.names import node_names
from gradscope.analysis.identity.sites import site_of
from gradscope.analysis.lookups import Ids
from gradscope.analysis.timing.durations import node_runs
from gradscope.errors import EmptyTraceError
from gradscope.scene.viewer.nodes import KINDS, PageNodes, edge_table, node_table
from gradscope.scene.viewer.text_columns import Table, TextColumn, Texts, shown
from gradscope.trace.arrays import distinct
from gradscope.trace.load_save import load
from gradscope.trace.schema import NONE, Device, Node, Saved, Tensor
from gradscope.trace.trace import Trace

Fact: TypeAlias = str | int


@dataclass(frozen=True, slots=True)
class NetworkNode:
    """One node; unknown fields are "" or NONE."""

    id: int
    name: str  # "MulBackward0"
    title: str  # "MulBackward0#2"
    kind: str
    leaf: str  # the name of the leaf whose gradient it accumulates
    module: str
    file: str
    line: int
    code: str
    operation: str  # the forward call that created it
    shape: str  # of the first gradient it receives
    device: str
    step: int
    sequence_nr: int
    runs: int
    own_ns: int  # of all its runs, without what ran inside
    saved_bytes: int

    def known(self) -> dict[str, Fact]:
        """The known fields, without the id."""
        return {name: value for name in FACTS if (value := getattr(self, name)) not in UNKNOWN}


FACTS = tuple(field.name for field in fields(NetworkNode) if field.name != "id")
UNKNOWN = ("", NONE)


@dataclass(frozen=True, slots=True)
class NetworkEdge:
    """Where one gradient goes."""

    tail: int
    head: int
    output: int  # which gradient of the tail
    input: int  # which input of the head
    shape: str

    def known(self) -> dict[str, Fact]:
        """The known fields, without the ends."""
        found: dict[str, Fact] = {"output": self.output, "input": self.input}
        return found | {"shape": self.shape} if self.shape else found


@dataclass(frozen=True, slots=True)
class Network:
    """Nodes by rising id, and edges in the order of the trace."""

    script: str
    level: str
    nodes: tuple[NetworkNode, ...]
    edges: tuple[NetworkEdge, ...]
    begin: int  # ns since the epoch at which it was recorded; 0 when not known


def network(trace: Trace, selection: Selection | None = None) -> Network:
    """The graph of a trace, or the selected part of it."""
    if not len(trace.table(Node)):
        raise EmptyTraceError(
            "this trace holds no backward nodes: nothing in the recording required a gradient"
        )
    chosen = select(trace, selection or Selection())
    if not chosen.nodes:
        raise EmptyTraceError("the options select no node")
    ids = np.sort(np.array(chosen.nodes, np.int64))
    numbers = backward_numbers(trace)
    tasks = [task for task in numbers if chosen.tasks is None or task in chosen.tasks]
    positions = trace.table(Node).positions(ids)
    scope = PageNodes(trace, ids, positions, np.array(tasks, np.int64), chosen.focus)
    base = trace.meta.get("clock_base")
    return Network(
        script=shown(trace.meta.get("script", "")),
        level=shown(trace.meta.get("level", "")),
        nodes=_nodes(scope),
        edges=_edges(scope),
        begin=base if base is not None and 0 <= base < 1 << 62 else 0,
    )


def to_networkx(
    trace: Trace | str | PathLike[str],
    *,
    step: int | None = None,
    task: int | None = None,
    around: str | None = None,
    hops: int = 2,
    path_to: str | None = None,
    critical: bool = False,
) -> Any:
    """The backward graph of a trace, or of a trace file, as a `networkx.MultiDiGraph`.

    Edges lead from outputs to leaves, as gradients flow.

    The keys of nodes are their ids in the trace; the key of an edge is the output of its tail.
    Attributes of nodes, where known: name, title, kind, leaf, module, file, line, code, operation,
    shape, device, step, sequence_nr, runs, own_ns, saved_bytes; of edges: output, input, shape.
    The options select a part, like those of `gradscope render`.
    """
    loaded = trace if isinstance(trace, Trace) else load(trace)
    return as_networkx(network(loaded, Selection(step, task, around, hops, path_to, critical)))


def types_of(found: Network) -> tuple[tuple[str, dict[str, Fact]], ...]:
    """The attribute names of nodes and edges, each with a value that shows its type."""
    of_nodes: dict[str, Fact] = {}
    for node in found.nodes:
        of_nodes |= node.known()
    of_edges: dict[str, Fact] = {}
    for edge in found.edges:
        of_edges |= edge.known()
    return (
        ("node", {name: of_nodes[name] for name in FACTS if name in of_nodes}),
        ("edge", of_edges),
    )


def as_networkx(found: Network) -> Any:
    from networkx import MultiDiGraph  # noqa: PLC0415  takes longer than the rest of a command

    graph = MultiDiGraph(script=found.script, level=found.level)
    graph.add_nodes_from((node.id, node.known()) for node in found.nodes)
    graph.add_edges_from((edge.tail, edge.head, edge.output, edge.known()) for edge in found.edges)
    return graph


def _nodes(scope: PageNodes) -> tuple[NetworkNode, ...]:
    trace, texts = scope.trace, Texts()
    table = node_table(scope, np.zeros(len(scope.ids), np.int64), texts)
    words = texts.all()

    def text(name: str) -> list[str]:
        return _texts(table, name, words)

    names = text("name")
    numbers = node_names(trace)
    several = (numbers.counts[scope.positions] > 1).tolist()
    ordinals = numbers.ordinals[scope.positions].tolist()
    files, lines, code = _places(scope, texts)
    runs, spent = _times(scope)
    columns = (
        scope.ids.tolist(),
        names,
        [
            f"{name}#{nr}" if numbered else name
            for name, nr, numbered in zip(names, ordinals, several, strict=True)
        ],
        [str(KINDS[kind]) for kind in _numbers(table, "kind")],
        text("leaf"),
        text("module"),
        files,
        lines,
        code,
        text("op"),
        text("shape"),
        _devices(scope),
        _numbers(table, "step"),
        scope.of("sequence_nr").tolist(),
        runs.tolist(),
        spent.tolist(),
        _saved(trace, scope).tolist(),
    )
    return tuple(NetworkNode(*row) for row in zip(*columns, strict=True))


def _edges(scope: PageNodes) -> tuple[NetworkEdge, ...]:
    texts = Texts()
    table = edge_table(scope, texts)
    ids = scope.ids
    tail, head = (ids[np.array(_numbers(table, name), np.int64)] for name in ("tail", "head"))
    columns = (
        tail.tolist(),
        head.tolist(),
        _numbers(table, "output"),
        _numbers(table, "input"),
        _texts(table, "shape", texts.all()),
    )
    return tuple(NetworkEdge(*row) for row in zip(*columns, strict=True))


def _texts(table: Table, name: str, words: tuple[str, ...]) -> list[str]:
    column = table[name]
    assert isinstance(column, TextColumn)
    return [words[place] for place in column.places.tolist()]


def _numbers(table: Table, name: str) -> list[int]:
    column = table[name]
    assert not isinstance(column, TextColumn)
    found: list[int] = column.tolist()
    return found


def _places(scope: PageNodes, texts: Texts) -> tuple[list[str], list[int], list[str]]:
    stacks = scope.of("stack")
    sites = {id: site_of(scope.trace, id) for id in distinct(stacks).tolist()}
    shown = {id: (texts.add(site.file), texts.add(site.text)) for id, site in sites.items()}
    words = texts.all()
    found = stacks.tolist()
    return (
        [words[shown[id][0]] for id in found],
        [sites[id].line or NONE for id in found],
        [words[shown[id][1]] for id in found],
    )


def _times(scope: PageNodes) -> tuple[Ids, Ids]:
    """The number of runs of each node, and their time; NONE where no run was recorded."""
    runs = node_runs(scope.trace)
    chosen = np.isin(runs.node, scope.ids) & np.isin(runs.task, scope.tasks)
    at = np.searchsorted(scope.ids, runs.node[chosen])
    number, spent = np.zeros(len(scope.ids), np.int64), np.zeros(len(scope.ids), np.int64)
    np.add.at(number, at, 1)
    np.add.at(spent, at, np.maximum(runs.self_ns[chosen], 0))
    if not len(runs.node):
        number[:] = NONE
    spent[number <= 0] = NONE
    return number, spent


def _saved(trace: Trace, scope: PageNodes) -> Ids:
    saved = trace.table(Saved)
    found = np.zeros(len(scope.ids), np.int64)
    rows = scope.rows(saved.array("node"))
    np.add.at(found, rows[rows != NONE], saved.array("bytes")[rows != NONE])
    return found


def _devices(scope: PageNodes) -> list[str]:
    """The device of the first gradient that each node receives."""
    trace = scope.trace
    names = {row.id: shown(row.name) for row in trace.rows(Device)}
    inputs = trace.table(Node).ragged("inputs").take(scope.positions)
    tensors = trace.table(Tensor)
    found = [""] * len(scope.ids)
    rows = np.flatnonzero(inputs.lengths > 0)
    if len(tensors):
        at = tensors.positions(inputs.values[inputs.offsets[:-1][rows]])
        devices = np.where(at == NONE, NONE, tensors["device"][at]).tolist()
        for row, device in zip(rows.tolist(), devices, strict=True):
            found[row] = names.get(device, "")
    return found
