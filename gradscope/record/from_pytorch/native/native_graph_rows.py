"""Rows of nodes found by a native traversal, in columns instead of node by node.

The contents are the same as those `PyTorchGraphs` writes for nodes found from Python.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradscope.record.from_pytorch.called.ops import COLUMNS
from gradscope.record.from_pytorch.claims import LARGE
from gradscope.record.from_pytorch.native.ends import PyTorchNodeEnds
from gradscope.record.from_pytorch.native.saved import NativeSaved
from gradscope.record.from_pytorch.native.storages import Storages
from gradscope.record.notes.log import take_all
from gradscope.trace import schema
from gradscope.trace.ragged import Ragged, take, within
from gradscope.trace.schema import NONE
from gradscope.watch.native.walk_memory import EDGE_COLUMNS, LARGE_FROM, NODE_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradscope.record.from_pytorch.tensors import PyTorchTensors
    from gradscope.record.session import Session
    from gradscope.watch.native.native_walker import NativeWalker

Ints = NDArray[np.int64]


class NativeGraphRows:
    """Reads the results of traversals whenever notes are flushed."""

    def __init__(
        self,
        session: Session,
        graph: NativeWalker,
        tensors: PyTorchTensors,
        named: Callable[[str], tuple[int, int, int]],
        *,
        saved: bool,
    ) -> None:
        self._session = session
        self._graph = graph
        self._tensors = tensors
        self.ends = PyTorchNodeEnds(session, graph.maker)
        self.storages = Storages(session, tensors.numbers)
        if saved:
            self._follow(graph, tensors)
        self._saved = NativeSaved(session, graph, tensors) if saved else None
        self._named = named  # text ids of the names of a node and its call, and its region
        self._names = np.zeros((0, 3), np.int64)
        self._layouts = np.zeros((0, 3), np.int64)  # dtype, device, bytes
        self._shapes = Ragged.of([])
        self._contexts = np.zeros((0, 5), np.int64)
        self._nodes: list[dict[str, Any]] = []
        self._links: list[dict[str, Any]] = []
        self._outputs: list[tuple[Ints, Ints, Ints]] = []
        self.made_before = 0  # nodes created before the recording
        self.saved: list[dict[str, Ints]] = []
        """Columns of saved values, until they are taken."""

    def _follow(self, graph: NativeWalker, tensors: PyTorchTensors) -> None:
        """Follow the release of large storages found by a traversal."""
        storages, cpu = self.storages, tensors.kinds.device(sys.modules["torch"].device("cpu"))

        def large(storage: int, walk: int, data: int, size: int) -> None:
            tensors.storages.know(storages.number(storage, cpu, size), walk, cpu, data, size)

        graph.large, tensors.storages.followed = large, storages.number
        graph.words[LARGE_FROM // 8] = tensors.storages.large_from = LARGE

    def _learn(self) -> None:
        """Read the meaning of new numbers."""
        names, layouts = self._graph.names, self._graph.layouts
        new = [self._named(name) for name in names[len(self._names) :]]
        self._names = _more(self._names, new)
        found = layouts[len(self._layouts) :]
        if found:
            self._layouts = _more(
                self._layouts, [self._tensors.kinds.in_memory(*each) for each in found]
            )
            self._shapes = Ragged.of([shape for shape, _, _ in layouts[: len(self._layouts)]])
        rows = self._session.contexts.rows
        self._contexts = _more(self._contexts, rows[len(self._contexts) :])

    def take(self) -> list[dict[str, Any]]:
        """The columns of calls of all new nodes; the others are written by `write`."""
        rows = self._graph.rows()
        if self._saved is not None and len(rows.saved):
            self.saved.append(self._saved.rows(rows.saved))
        if not len(rows.nodes):
            return []
        self._learn()
        node = dict(zip(NODE_COLUMNS, rows.nodes.T.copy(), strict=True))
        number, leaf, many = node["number"], node["leaf"] != 0, node["many"]
        op = np.where(leaf | (node["context"] == 0), NONE, number)
        self.made_before += int(np.count_nonzero(~leaf & (op == NONE)))
        thread, module, task, _, phase = self._contexts[node["context"]].T.copy()
        t = np.maximum(node["t"] - self._session.start, 0)
        step = np.where(node["context"] == 0, NONE, self._session.contexts.steps.at(t))
        owner = np.repeat(np.arange(len(many)), many)
        inputs = Ragged.of_lengths(many, owner)
        place = within(many)
        others = node["rest"][owner] + 2 * (place - 1)
        inputs.values = np.where(place == 0, node["first"][owner], others)
        names = self._names[node["kind"]]
        self._nodes.append({
            "id": number, "name": names[:, 0].copy(), "sequence_nr": node["sequence"],
            "topological_nr": node["topological"], "op": op, "inputs": inputs, "task": task,
            "module": module, "stack": node["site"], "thread": thread, "step": step, "t": t,
            "region": names[:, 2].copy(),
        })  # fmt: skip
        outputs = ~leaf[owner]
        self._outputs.append((inputs.values[outputs], rows.inputs, op[owner][outputs]))
        sources, first = self._edges(rows.edges, node["edges"])
        chosen = np.flatnonzero(op != NONE)
        columns = (
            number, names[:, 1], t, sources, inputs, number, module, node["site"], thread, task,
            step, phase, np.full(len(number), NONE), node["sequence"], first,
        )  # fmt: skip
        chosen_columns = [take(column, chosen) for column in columns]
        return [dict(zip(COLUMNS, chosen_columns, strict=True))]

    def operands(self) -> list[Ints]:
        """Saved values that no node created: node, number of the slot, tensor."""
        return [] if self._saved is None else take_all(self._saved.operands)

    def write(self) -> None:
        """Write the rows of nodes, edges and tensors, with some tensors replaced by others."""
        write, merged = self._session.writer.block, self._tensors.merged
        for columns in take_all(self._nodes):
            if merged:
                ids = [merged.get(each, each) for each in columns["inputs"].values.tolist()]
                columns["inputs"].values = np.array(ids, np.int64)
            write(schema.Node, columns)
        for edges in take_all(self._links):
            write(schema.Edge, edges)
        for tensors, layouts, op in take_all(self._outputs):
            if len(tensors):
                self._write_outputs(tensors, layouts, op)

    def _write_outputs(self, tensors: Ints, layouts: Ints, op: Ints) -> None:
        """The rows of results of calls, as far as nodes know them."""
        dtype, device, size = self._layouts[layouts].T.copy()
        nothing = np.zeros(len(tensors), np.int64)
        self._session.writer.block(schema.Tensor, {
            "id": tensors, "shape": self._shapes.take(layouts),
            "strides": Ragged.of_lengths(nothing, nothing[:0]), "dtype": dtype, "device": device,
            "storage": nothing + NONE, "bytes": size, "version": nothing,
            "leaf": nothing != 0, "requires_grad": nothing == 0, "op": op,
        })  # fmt: skip

    def _edges(self, rows: Ints, many: Ints) -> tuple[Ragged, Ints]:
        """The tensors of the destinations of each node's edges, and that of the first, or NONE."""
        edge = dict(zip(EDGE_COLUMNS, rows.T.copy(), strict=True))
        if len(rows):
            following = np.where(edge["target"] == 0, NONE, edge["target"])
            self._links.append({
                "node": edge["node"], "index": edge["index"], "next": following,
                "input_nr": edge["nr"],
            })  # fmt: skip
        owner, known = np.repeat(np.arange(len(many)), many), edge["source"] != NONE
        first = np.full(len(many), NONE)
        first[owner[edge["index"] == 0]] = edge["source"][edge["index"] == 0]
        lengths = np.bincount(owner[known], minlength=len(many))
        return Ragged.of_lengths(lengths, edge["source"][known]), first


def _more(known: Ints, rows: list[Any]) -> Ints:
    if not rows:
        return known
    return np.concatenate([known, np.array(rows, np.int64).reshape(-1, known.shape[1])])
