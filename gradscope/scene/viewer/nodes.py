"""The nodes that the page shows, and the edges between them, as columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gradscope.analysis.graph.columns import GraphColumns, graph_columns
from gradscope.analysis.graph.selection import Selected, Selection, leaf_nodes, select
from gradscope.analysis.graph.took_part import took_part_unseen
from gradscope.analysis.identity.backwards import backward_numbers
from gradscope.analysis.identity.leaves import leaf_of
from gradscope.analysis.identity.names import find_nodes, node_names
from gradscope.analysis.identity.sharding import Sharding
from gradscope.analysis.identity.steps import step_numbers
from gradscope.analysis.lookups import Ids, ranks
from gradscope.analysis.program.modules import module_names
from gradscope.analysis.ranks.whose import RankOf
from gradscope.scene.graph.lanes import Lanes, lanes_of_nodes
from gradscope.scene.graph.marks import marks_of
from gradscope.scene.kinds import BoxMark, NodeKind, kind_of
from gradscope.scene.readable import shape
from gradscope.scene.viewer.text_columns import Table, Texts, ints
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, Edge, GraphTask, Node, Op, Tensor
from gradscope.trace.trace import Trace

KINDS = tuple(NodeKind)
MARKS = tuple(BoxMark)


@dataclass(frozen=True)
class PageNodes:
    """The nodes of the page by rising id, a row each, and the backwards."""

    trace: Trace
    ids: Ids
    positions: Ids  # in the trace's table
    tasks: Ids  # ids of the graph tasks, by rank, in the order they began
    focus: tuple[int, ...]

    def rows(self, nodes: Ids) -> Ids:
        """The row of each node; NONE if it is not on the page."""
        if not len(self.ids):
            return np.full(len(nodes), NONE, np.int64)
        at = np.minimum(np.searchsorted(self.ids, nodes), len(self.ids) - 1)
        return np.where(self.ids[at] == nodes, at, NONE)

    def task_rows(self, tasks: Ids) -> Ids:
        """The row of each graph task; NONE if it is not on the page."""
        places = {task: row for row, task in enumerate(self.tasks.tolist())}
        known = {task: places.get(task, NONE) for task in distinct(tasks).tolist()}
        return ints(known[task] for task in tasks.tolist())

    @cached_property
    def columns(self) -> GraphColumns:
        """The nodes of the page as columns of a graph."""
        tasks = frozenset(self.tasks.tolist())
        return graph_columns(self.trace, Selected(tuple(self.ids.tolist()), (), tasks))

    @cached_property
    def lanes(self) -> Lanes:
        """The threads or devices of nodes, if there is more than one."""
        return lanes_of_nodes(self.trace, self.columns, self.tasks.tolist())

    @property
    def beside(self) -> np.ndarray:
        """The leaves that are drawn next to the nodes that send them gradients."""
        return self.columns.beside

    def of(self, column: str) -> Ids:
        """A column of the trace's nodes, for those of the page."""
        return self.trace.table(Node).array(column)[self.positions]


def scope_of(trace: Trace, selection: Selection) -> PageNodes:
    """All nodes and backwards, or those of one step or backward. `around`: where to begin."""
    table = trace.table(Node)
    part = replace(selection, around=None)
    chosen = select(trace, part) if part != Selection() else None
    focus = () if selection.around is None else find_nodes(trace, selection.around)
    ids = np.sort(table["id"] if chosen is None else ints(chosen.nodes))
    numbers = backward_numbers(trace)
    wanted = chosen.tasks if chosen else None
    tasks = ints(task for task in numbers if wanted is None or task in wanted)
    tasks = tasks[np.argsort(trace.once(RankOf).of(GraphTask.TABLE, tasks), kind="stable")]
    return PageNodes(trace, ids, table.positions(ids), tasks, focus)


def node_table(scope: PageNodes, groups: Ids, texts: Texts) -> Table:
    trace = scope.trace
    names, modules = node_names(trace), module_names(trace)
    counts, ordinals = names.counts[scope.positions], names.ordinals[scope.positions]
    steps, backwards = step_numbers(trace), backward_numbers(trace)
    inputs = trace.table(Node).ragged("inputs").take(scope.positions)
    first = np.full(len(scope.ids), NONE, np.int64)
    some = inputs.lengths > 0
    first[some] = inputs.values[inputs.offsets[:-1][some]]
    ops, begin, end = _calls(scope)
    name_texts = {id: trace.text(id) for id in distinct(scope.of("name")).tolist()}
    kinds = {id: KINDS.index(kind_of(text)) for id, text in name_texts.items()}
    leaves, guessed = _leaves(scope)
    named = texts.column(name_texts[id] for id in scope.of("name").tolist())
    return {
        "id": scope.ids,
        "name": named,
        "behind": np.where(counts == 1, 0, ordinals) - ranks(named.places) - 1,
        "kind": ints(kinds[id] for id in scope.of("name").tolist()),
        "group": groups,
        "stack": scope.of("stack"),
        "leaf": texts.column(leaves),
        "is_leaf": scope.beside.astype(np.int64),
        "guessed": ints(guessed),
        "step": ints(steps.get(each, NONE) for each in scope.of("step").tolist()),
        "made_in": ints(backwards.get(each, NONE) for each in scope.of("task").tolist()),
        "module": texts.column(modules.get(each, "") for each in scope.of("module").tolist()),
        "sequence": scope.of("sequence_nr"),
        "shape": texts.column(_parts(trace, first)),
        "op": texts.column(ops),
        "op_ns": np.where(end == NONE, NONE, end - begin),
        "marks": _marks(scope),
        "lane": scope.lanes.column(scope.ids),
        "region": scope.of("region"),
    }


def edge_table(scope: PageNodes, texts: Texts) -> Table:
    """The edges between these nodes, and the number of other edges of each node."""
    trace = scope.trace
    edges = trace.table(Edge)
    tail, head = scope.rows(edges["node"]), scope.rows(edges["next"])
    inside = (tail != NONE) & (head != NONE)
    head_inputs = trace.table(Node).ragged("inputs").take(scope.positions)
    number = edges["input_nr"][inside]
    at = head_inputs.offsets[:-1][head[inside]] + number
    there = (number >= 0) & (number < head_inputs.lengths[head[inside]])
    tensor = np.full(len(at), NONE, np.int64)
    tensor[there] = head_inputs.values[at[there]]
    return {
        "tail": tail[inside],
        "head": head[inside],
        "output": edges["index"][inside],
        "input": number,
        "shape": texts.column(shapes(trace, tensor)),
    }


def shapes(trace: Trace, tensors: Ids) -> list[str]:
    """ "[2, 3] float32" for each tensor; "" where unknown."""
    table = trace.table(Tensor)
    wanted = distinct(tensors)
    positions = table.positions(wanted)
    wanted, positions = wanted[positions != NONE], positions[positions != NONE]
    sizes = table.ragged("shape").take(positions).tuples()
    dtypes = trace.texts(table["dtype"][positions])
    known: dict[tuple[tuple[int, ...], str], str] = {}
    found = {NONE: ""}
    for id, pair in zip(wanted.tolist(), zip(sizes, dtypes, strict=True), strict=True):
        found[id] = known.get(pair) or known.setdefault(pair, f"{shape(pair[0])} {pair[1]}".strip())
    return [found.get(id, "") for id in tensors.tolist()]


def _parts(trace: Trace, tensors: Ids) -> list[str]:
    """The same, for a divided tensor with the part on this rank."""
    in_words = trace.once(Sharding).in_words
    pairs = zip(tensors.tolist(), shapes(trace, tensors), strict=True)
    return [in_words(tensor, whole) for tensor, whole in pairs]


def _calls(scope: PageNodes) -> tuple[list[str], Ids, Ids]:
    """The forward call that created each node: its name, begin and end."""
    ops = scope.trace.table(Op)
    ids = scope.of("op")
    positions = ops.positions(ids)
    names = {id: scope.trace.text(id) for id in distinct(ops["name"]).tolist()}
    if not len(ops):
        return [""] * len(ids), ids, ids
    known = positions != NONE
    begin = np.where(known, ops["begin"][positions], NONE)
    end = np.where(known, ops["end"][positions], NONE)
    called = zip(ops["name"][positions].tolist(), known.tolist(), strict=True)
    return [names[name] if there else "" for name, there in called], begin, end


def _leaves(scope: PageNodes) -> tuple[list[str], list[int]]:
    """The name of each leaf, and whether it was taken from a source line."""
    titles, guessed = [""] * len(scope.ids), [0] * len(scope.ids)
    table = scope.trace.table(Node)
    for row in np.flatnonzero(np.isin(scope.ids, leaf_nodes(scope.trace))).tolist():
        leaf = leaf_of(scope.trace, table.row(int(scope.ids[row])))
        if leaf is not None:
            titles[row], guessed[row] = leaf.title, int(leaf.guessed)
    return titles, guessed


def _marks(scope: PageNodes) -> Ids:
    """Bits, in the order of MARKS."""
    trace, tasks = scope.trace, frozenset(scope.tasks.tolist())
    marks = marks_of(trace, scope.focus, tasks, took_part_unseen(trace, tasks))
    found = np.zeros(len(scope.ids), np.int64)
    if marks.ran is not None:
        found[~np.isin(scope.ids, ints(marks.ran))] = 1 << MARKS.index(BoxMark.NOT_RUN)
    rows = scope.rows(ints(marks.marks)).tolist()
    for row, node in zip(rows, marks.marks, strict=True):
        if row != NONE:
            found[row] = sum(1 << MARKS.index(mark) for mark in marks.of((node,)))
    return found
