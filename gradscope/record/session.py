"""One recording: the probe's notes on their way into the writer, window by window."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.record.catalog import Catalog
from gradscope.record.contexts import Contexts
from gradscope.record.native import NativeProbe, _ids
from gradscope.record.optable import OpTable
from gradscope.record.rows import Rows
from gradscope.record.runs import Events
from gradscope.record.sites import Sites
from gradscope.trace import schema

if TYPE_CHECKING:
    from gradscope.trace.writer import Writer


class Session:
    """Everything one recording needs. `flush` may be called at any time, from any thread."""

    def __init__(self, writer: Writer, start: int, *, whole_stacks: bool) -> None:
        self.writer = writer
        self.start = start
        self.base = base = next(_ids)
        self.sites = Sites(writer, whole=whole_stacks)
        self.contexts = Contexts(writer, start, base)
        self.catalog = Catalog(writer, self.sites, self.contexts, base, _ids.__next__)
        self.ops = OpTable(writer)
        self.rows = Rows(writer, self.contexts, base, start)
        self.events = Events(writer, self.rows, start)
        self.probe = NativeProbe(base, self.sites, self.contexts, self.catalog)
        self.probe.window = self.flush
        self._lock = threading.RLock()
        self._flushing = False
        writer.block(schema.Device, {"id": [0], "name": [writer.intern("cpu")]})

    def flush(self) -> None:
        """Turn all notes so far into rows, and let the writer have them."""
        with self._lock:
            if self._flushing:  # a hook or finaliser noted something while rows are being made
                return
            self._flushing = True
            try:
                self._flush()
                self.writer.commit()
            finally:
                self._flushing = False

    def _flush(self) -> None:
        catalog = self.catalog
        calls = self.rows.calls(self.probe.calls_one, self.probe.calls_two)
        origins, catalog.origins = catalog.origins, []
        self.rows.origins.add(origins)
        self.contexts.flush()
        self._modules()
        self._described()
        self.rows.write(calls, catalog, self.ops)
        catalog.explicit.clear()
        catalog.views.clear()
        self._full_rows()
        self._tasks()
        dependencies, catalog.dependencies = catalog.dependencies, []
        self.sites.flush()
        self.events.flush(self.probe, dependencies)
        self._ended()

    def _modules(self) -> None:
        modules, self.catalog.modules = self.catalog.modules, []
        if modules:
            columns = {name: [row[name] for row in modules] for name in modules[0]}
            columns["parameters"] = [self._list(p) for p in columns["parameters"]]
            self.writer.block(schema.Module, columns)

    def _list(self, numbers: Any) -> list[int]:
        return [number - self.base - 1 for number in numbers]

    def _described(self) -> None:
        """Storages and tensors written out in full, and names that were found later."""
        catalog, block, ids = self.catalog, self.writer.block, self.rows.ids
        storages, catalog.storages = catalog.storages, []
        if storages:
            number, size, born = zip(*storages, strict=True)
            zeros = [0] * len(number)
            block(schema.Storage, {"id": ids(number), "bytes": size, "born": born, "device": zeros})
        tensors, catalog.tensors = catalog.tensors, []
        if tensors:
            names = ("id", "shape", "strides", "dtype", "storage", "bytes", "version", "leaf",
                     "requires_grad", "name", "op")  # fmt: skip
            columns = dict(zip(names, map(list, zip(*tensors, strict=True)), strict=True))
            self.rows.sizes.put(np.array(columns["id"]), np.array(columns["bytes"]))
            columns["id"], columns["storage"] = ids(columns["id"]), ids(columns["storage"])
            columns["op"] = ids(columns["op"])
            block(schema.Tensor, {**columns, "device": [0] * len(tensors)})
        named, catalog.names = catalog.names, []
        if named:
            number, name = zip(*named, strict=True)
            block(schema.Tensor, {"id": ids(number), "name": name}, amend=True)

    def _full_rows(self) -> None:
        """Calls, nodes, edges, saved tensors and versions that were written out in full."""
        catalog, block, ids = self.catalog, self.writer.block, self.rows.ids
        contexts = np.array(self.contexts.rows, np.int64)
        calls, catalog.ops = catalog.ops, []
        if calls:
            number, name, begin, end, inputs, outputs, node, context, site = zip(*calls, strict=True)
            where = contexts[list(context)]
            block(schema.Op, {
                "id": ids(number), "name": name, "begin": np.array(begin) - self.start,
                "end": np.array(end) - self.start, "inputs": [self._list(i) for i in inputs],
                "outputs": [self._list(o) for o in outputs], "node": ids(node),
                "why": np.where(ids(node) >= 0, 0, schema.Why.NO_INPUT_REQUIRES_GRAD),
                "module": where[:, 1], "stack": site, "thread": where[:, 0], "task": where[:, 2],
                "step": where[:, 3], "phase": where[:, 4],
            })  # fmt: skip
        nodes, catalog.nodes = catalog.nodes, []
        if nodes:
            number, name, sequence, top, op, inputs, context, site, t = zip(*nodes, strict=True)
            where = contexts[list(context)]
            block(schema.Node, {
                "id": ids(number), "name": name, "sequence_nr": sequence, "topological_nr": top,
                "op": ids(op), "inputs": [self._list(i) for i in inputs], "task": where[:, 2],
                "module": where[:, 1], "stack": site, "thread": where[:, 0], "step": where[:, 3],
                "t": t,
            })  # fmt: skip
        edges, catalog.edges = catalog.edges, []
        if edges:
            node, index, following, nr = map(np.array, zip(*edges, strict=True))
            columns = {"node": ids(node), "index": index, "next": ids(following), "input_nr": nr}
            block(schema.Edge, columns)
        saved, catalog.saved = catalog.saved, []
        if saved:
            node, slot, tensor, version, t, hooked = map(np.array, zip(*saved, strict=True))
            self.rows.keep(node, slot, tensor, version, t, hooked.astype(bool))
        written, catalog.versions = catalog.versions, []
        if written:
            storage, tensor, old, new, op, site, context, t = map(np.array, zip(*written, strict=True))
            block(schema.Version, {
                "storage": ids(storage), "tensor": ids(tensor), "old": old, "new": new,
                "op": ids(op), "stack": site, "thread": contexts[context, 0], "t": t,
            })  # fmt: skip

    def _tasks(self) -> None:
        tasks, self.catalog.tasks = self.catalog.tasks, []
        for task in tasks:
            self.events.task_thread[task["id"]] = task["thread"]
            self.events.depth_of[task["id"]] = task["depth"]
        if tasks:
            columns = {name: [task[name] for task in tasks] for name in tasks[0]}
            columns["id"] = self.rows.ids(columns["id"])
            columns["parent"] = self.rows.ids(columns["parent"])
            for name in ("roots", "inputs", "needed", "captured"):
                columns[name] = [self._list(numbers) for numbers in columns[name]]
            self.writer.block(schema.GraphTask, columns)

    def _ended(self) -> None:
        ended, self.catalog.ended_tasks = self.catalog.ended_tasks, []
        if ended:
            number, end, error = zip(*ended, strict=True)
            columns = {"id": self.rows.ids(number), "end": end, "error": error}
            self.writer.block(schema.GraphTask, columns, amend=True)

    def close(self) -> None:
        """Write what is left."""
        self.contexts.finish()
        with suppress(RecursionError):
            self.flush()
