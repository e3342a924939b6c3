"""Writes the rows that the catalog has described in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.record.notes.log import take_all
from gradscope.trace import schema
from gradscope.trace.shorthand import tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradscope.record.from_runtime.cold.catalog import Catalog
    from gradscope.record.from_runtime.hot.frees import Frees
    from gradscope.record.session import Session


class ColdRows:
    """Writes what waits in the lists of the catalog; the caller must hold the only access."""

    def __init__(
        self, session: Session, catalog: Catalog, frees: Frees, *, graph_only: bool
    ) -> None:
        self._writer = session.writer
        self._block, self._intern = session.writer.block, session.writer.intern
        self._ids, self._start, self._base = session.ids, session.start, session.base
        self._catalog, self._contexts = catalog, session.contexts
        self._frees = frees
        self._graph_only = graph_only

    def paths(self, waiting: list[tuple[int, str]]) -> None:
        """The dispatch keys that calls went through, if those were recorded."""
        paths = take_all(waiting)
        if paths:
            number, path = zip(*paths, strict=True)
            texts = list(map(self._intern, path))
            self._block(schema.Op, {"id": self._ids(number), "path": texts}, amend=True)

    def exceptions(self) -> None:
        """Data that does not follow from the numbers of ordinary calls."""
        catalog, ids = self._catalog, self._ids
        origins = take_all(catalog.origins)
        if origins:
            tensor, since, node, output = zip(*origins, strict=True)
            self._block(tables.ShortOrigin, {
                "tensor": ids(tensor), "since": ids(since), "node": ids(node), "output": output,
            })  # fmt: skip
        explicit = take_all(catalog.explicit)
        if explicit:
            self._block(tables.ShortExplicit, {"number": ids(explicit)})
        views = take_all(catalog.views)
        if views:
            number, storage = zip(*views, strict=True)
            self._block(tables.ShortView, {"number": ids(number), "storage": ids(storage)})

    def described(self) -> None:
        """Tensors and storages written in full."""
        catalog, block, ids = self._catalog, self._block, self._ids
        tensors = take_all(catalog.tensors)
        if tensors:
            names = ("id", "shape", "strides", "dtype", "storage", "bytes", "version", "leaf",
                     "requires_grad", "name", "op", "device")  # fmt: skip
            columns: dict[str, Any] = dict(
                zip(names, map(list, zip(*tensors, strict=True)), strict=True)
            )
            columns["id"], columns["storage"] = ids(columns["id"]), ids(columns["storage"])
            columns["op"] = ids(columns["op"])
            block(schema.Tensor, columns)
        named = take_all(catalog.named)
        if named:
            number, name = zip(*named, strict=True)
            block(schema.Tensor, {"id": ids(number), "name": name}, amend=True)
        storages = take_all(catalog.storages)
        if storages:
            number, size, born, place = zip(*storages, strict=True)
            block(schema.Storage, {"id": ids(number), "bytes": size, "born": born, "device": place})
        moved = catalog.places.take()
        if moved:
            tensor, storage, place = zip(*moved, strict=True)
            block(schema.Tensor, {"id": ids(tensor), "device": place}, amend=True)
            block(schema.Storage, {"id": ids(storage), "device": place}, amend=True)

    def freed(self) -> None:
        """Freed storages; their rows may be written in the same window."""
        freed = self._frees.take()
        if freed:
            number, t = zip(*freed, strict=True)
            self._block(schema.Storage, {"id": self._ids(number), "freed": t}, amend=True)

    def gone(self, nodes: Sequence[tuple[int, int]]) -> None:
        """Released nodes."""
        if nodes:
            number, t = zip(*nodes, strict=True)
            self._block(schema.Node, {"id": self._ids(number), "died": t}, amend=True)

    def full_rows(self) -> None:
        """Calls and nodes that were written in full, with their rows."""
        catalog, block, ids = self._catalog, self._block, self._ids
        calls = take_all(catalog.ops)
        nodes = take_all(catalog.nodes)
        written = take_all(catalog.versions)
        fused = catalog.fused.take(self._start)
        if calls:
            number, name, begin, end, inputs, outputs, node, context, site, why = zip(
                *calls, strict=True
            )
            where = self._contexts.columns(context)
            block(schema.Op, {
                "id": ids(number), "name": name, "begin": np.array(begin) - self._start,
                "end": np.array(end) - self._start, "inputs": [self._list(i) for i in inputs],
                "outputs": [self._list(o) for o in outputs], "node": ids(node),
                "why": np.array(why),
                "module": where[:, 1], "stack": site, "thread": where[:, 0], "task": where[:, 2],
                "step": where[:, 3], "phase": where[:, 4],
            })  # fmt: skip
        if nodes:
            number, name, sequence, top, op, inputs, context, site, t = zip(*nodes, strict=True)
            where = self._contexts.columns(context)
            block(schema.Node, {
                "id": ids(number), "name": name, "sequence_nr": sequence, "topological_nr": top,
                "op": ids(op), "inputs": [self._list(i) for i in inputs], "task": where[:, 2],
                "module": where[:, 1], "stack": site, "thread": where[:, 0], "step": where[:, 3],
                "t": t,
            })  # fmt: skip
        catalog.arguments.write(self._writer, ids)
        names = ("storage", "tensor", "old", "new", "op", "stack", "context", "t")
        if written:
            single = map(np.array, zip(*written, strict=True))
            self._versions(dict(zip(names, single, strict=True)))
        if fused is not None:
            self._versions(fused)
        self._full_links()

    def _versions(self, columns: dict[str, Any]) -> None:
        for name in ("storage", "tensor", "op"):
            columns[name] = self._ids(columns[name])
        columns["thread"] = self._contexts.columns(columns.pop("context").tolist())[:, 0]
        self._block(schema.Version, columns)

    def _full_links(self) -> None:
        """Edges and saved tensors that were written in full."""
        catalog, block, ids = self._catalog, self._block, self._ids
        edges = take_all(catalog.edges)
        if edges:
            node, index, following, nr = map(np.array, zip(*edges, strict=True))
            columns = {"node": ids(node), "index": index, "next": ids(following), "input_nr": nr}
            block(schema.Edge, columns)
        saved = take_all(catalog.saved)
        if saved and not self._graph_only:
            node, slot, tensor, version, t, hooked = map(np.array, zip(*saved, strict=True))
            block(tables.ShortSaved, {
                "node": ids(node), "slot": slot, "tensor": ids(tensor), "version": version,
                "t": t, "hooked": hooked,
            })  # fmt: skip

    def tasks(self) -> int:
        """Graph tasks that have begun or ended. Returns the change in the running ones."""
        ended, begun = take_all(self._catalog.ended_tasks), take_all(self._catalog.tasks)
        if ended:
            number, end, error = zip(*ended, strict=True)
            ends: dict[str, Any] = {"id": self._ids(number), "end": end, "error": error}
            self._block(schema.GraphTask, ends, amend=True)
        if begun:
            columns: dict[str, Any] = {name: [t[name] for t in begun] for name in begun[0]}
            columns["id"] = self._ids(columns["id"])
            columns["parent"] = self._ids(columns["parent"])
            for name in ("roots", "inputs", "needed", "captured"):
                columns[name] = [self._list(numbers) for numbers in columns[name]]
            self._block(schema.GraphTask, columns)
        return len(begun) - len(ended)

    def _list(self, numbers: Any) -> list[int]:
        return [(number - self._base - 2) >> 1 for number in numbers]
