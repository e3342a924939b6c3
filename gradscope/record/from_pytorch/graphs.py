"""Rows of nodes, edges and saved values, and of calls that are derived from nodes."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.record.from_pytorch.called.compiled_regions import CompiledRegions
from gradscope.record.from_pytorch.called.in_place import MEMORY, InPlace
from gradscope.record.from_pytorch.called.not_finite import NotFiniteCalls
from gradscope.record.from_pytorch.called.operands import WRITTEN, OperandRows
from gradscope.record.from_pytorch.called.ops import Ops, of_rows
from gradscope.record.from_pytorch.called.pytorch_arguments import PyTorchArguments
from gradscope.record.from_pytorch.called.tensor_rows import TensorRows
from gradscope.record.from_pytorch.called.writes import PyTorchWrites
from gradscope.record.from_pytorch.memory.storage_rows import put
from gradscope.record.from_pytorch.tensors import shape_of
from gradscope.record.from_pytorch.threads import UnderWay
from gradscope.record.notes.log import take_all
from gradscope.record.notes.user_functions import call_of
from gradscope.trace import schema
from gradscope.trace.schema import NONE, Place
from gradscope.trace.shorthand import tables
from gradscope.watch.listener import PythonNodeRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradscope.record.from_pytorch.called.moves import Moves
    from gradscope.record.from_pytorch.called.ops import Ints
    from gradscope.record.from_pytorch.called.pytorch_calls import PyTorchCalls
    from gradscope.record.from_pytorch.native.ends import Releases
    from gradscope.record.from_pytorch.native.native_graph_rows import NativeGraphRows
    from gradscope.record.from_pytorch.tasks import PyTorchTask
    from gradscope.record.from_pytorch.tensors import PyTorchTensors
    from gradscope.record.from_pytorch.values import PyTorchValues
    from gradscope.record.session import Session
    from gradscope.watch.listener import FoundNode, FoundSavedValue, NodeRecord, SavedByNode
    from gradscope.watch.watcher import Watcher

OF_GRAPH, REGION = " of graph ", "CompiledFunction"
SAVED = ("node", "slot", "tensor", "version", "t", "hooked", *MEMORY)


def _output(record: NodeRecord, nr: int) -> int:
    """The tensor whose gradient this input of a node receives."""
    return record.rest[nr - 1] if nr else record.first


class PyTorchGraphs:
    """Rows of what traversals have found."""

    def __init__(
        self,
        session: Session,
        tensors: PyTorchTensors,
        calls: PyTorchCalls,
        values: PyTorchValues,
    ) -> None:
        self._session = session
        self._tensors = tensors
        self._calls = calls
        self._writes = PyTorchWrites(tensors)
        self.in_place = InPlace(session, calls, self._next, tensors.is_unseen)
        tensors.met = self.in_place.met
        self.operands = OperandRows(
            tensors, calls, TensorRows(session.writer, session.contexts.now, self._next)
        )
        self.not_finite = NotFiniteCalls(session, calls, self.in_place, values, self._next)
        self._values = values
        self._operands_of_nodes: list[
            Ints
        ] = []  # arguments that no node created: node, slot, tensor
        self.unnamed = 0  # calls whose names are derived from their nodes
        self._made_before = 0
        self.compiled = CompiledRegions(session)
        self._names: dict[str, tuple[int, int, int]] = {}
        self.walked: NativeGraphRows | None = None  # if nodes are found natively
        self.releases: Releases | None = None
        self.arguments = PyTorchArguments()
        self._nodes: list[tuple[Any, ...]] = []
        self._edges: list[tuple[int, int, int, int]] = []
        self._ops: list[tuple[Any, ...]] = []
        self._saved: list[tuple[Any, ...]] = []

    def _intern(self, text: str) -> int:
        return self._session.writer.intern(text)

    def _next(self) -> int:
        return self._tensors.numbers.one()

    def found(self, nodes: Sequence[FoundNode]) -> None:
        """Add rows for nodes: first all outputs, because any node may have saved them."""
        for node in nodes:
            self._describe(node)
        self.found_saved([node.all_saved() for node in nodes if node.saved], perf_counter_ns())

    def found_saved(self, nodes: Sequence[SavedByNode], walk_began: int) -> None:
        """Add rows for values saved by nodes that one traversal found; `began`: its start."""
        self._tensors.storages.walk = walk_began
        for node in nodes:
            self._keep(node)

    @property
    def made_before(self) -> int:
        """Number of nodes that were created before the recording."""
        return self._made_before + (0 if self.walked is None else self.walked.made_before)

    @property
    def ends_lost(self) -> int:
        """Number of released nodes whose release was not read in time."""
        return 0 if self.releases is None else self.releases.nodes.lost

    def left(self, watcher: Watcher, paused: object) -> None:
        """Called at the end of the program, while its objects still exist."""
        if self.releases is not None:
            if paused is None:
                self.releases.nodes.look(watcher)
            self.releases.storages.stop()

    def look_for_ends(self) -> None:
        """Check which storages have been freed."""
        if self.releases is not None:
            self.releases.storages.look()

    def named(self, node: str) -> tuple[int, int, int]:
        """The text ids of the names of a node and its call, and the compiled region that it is."""
        named = self._names.get(node)
        if named is None:
            name, of_graph, graph = node.rpartition("::")[2].partition(OF_GRAPH)
            region = NONE
            if of_graph or name.startswith(REGION):
                region = self.compiled.region(graph)
            from gradscope.watch.called.results import operator_of

            call = operator_of(name) or call_of(name)
            named = self._names[node] = self._intern(name), self._intern(call), region
        return named

    def _describe(self, node: FoundNode) -> None:
        number, contexts = node.record.number, self._session.contexts
        if self.releases is not None:
            self.releases.met(number)
        named = self.named(node.name)
        thread, module, task, step, phase = contexts.rows[node.record.context]
        t = max(node.record.t - self._session.start, 0)
        if node.record.context:
            step = int(contexts.steps.at(t))
        if node.leaf is not None:
            op, inputs = NONE, [self._tensors.number_of(node.leaf)]
            if self._values.on:
                self._values.look(Place.LEAF, node.leaf, tensor=inputs[0], at=t)
        else:
            self._made_before += not node.record.context
            op = NONE if node.made_before else number
            inputs = [number, *[self._next() for _ in node.inputs[1:]]][: len(node.inputs)]
            for tensor, (shape, dtype, device) in zip(inputs, node.inputs, strict=True):
                self._tensors.output(tensor, shape, dtype, device, op)
        node.record.many, node.record.first = len(inputs), inputs[0] if inputs else 0
        node.record.rest = tuple(inputs[1:])
        self._nodes.append((
            number, named[0], node.sequence_nr, node.topological_nr, op, inputs, task, module,
            node.record.site, thread, step, t, named[2],
        ))  # fmt: skip
        for index, (target, nr) in enumerate(node.edges):
            self._edges.append((number, index, NONE if target is None else target.number, nr))
        if op != NONE:
            sources = [
                _output(record, nr)
                for record, nr in node.edges
                if record is not None and nr < record.many
            ]
            record, nr = node.edges[0] if node.edges else (None, 0)
            first = NONE if record is None or nr >= record.many else _output(record, nr)
            self._ops.append((
                number, named[1], t, sources, inputs, number, module, node.record.site, thread,
                task, step, phase, NONE, node.sequence_nr, first,
            ))  # fmt: skip

    def _keep(self, node: SavedByNode) -> None:
        record = node.record
        for value in node.saved:
            tensor, version, where, address = NONE, 0, (0, 0, 0, NONE, 0), 0
            if value.tensor is not None:
                tensor = self._tensor(node, value)
                version = 0 if value.tensor.is_inference() else value.tensor._version
                where = self._where(value.tensor)
                has_history = value.output_of is not None or value.tensor.requires_grad
                address = 0 if has_history else value.tensor._cdata
            self._saved.append((
                record.number, self._intern(value.slot), tensor, version,
                max(record.t - self._session.start, 0), int(value.tensor is None), *where,
                int(value.own is not None), address,
            ))  # fmt: skip

    def _where(self, tensor: Any) -> tuple[int, int, int, int, int]:
        """The columns MEMORY of a saved tensor."""
        data, counter = self.in_place.memory_of(tensor)
        storage = self._tensors.storages.of(tensor) if data else NONE
        in_order = data and not tensor.is_nested and tensor.is_contiguous()
        whole = int(tensor.numel()) if in_order else 0
        return data, counter, self._tensors.storages.walk, storage, whole

    def root(self, task: PyTorchTask, sequence: int) -> None:
        """The node that PyTorch creates above several roots; only its run is observed."""
        number, roots = task.root, task.asked.roots
        self._nodes.append((
            number, self._intern("GraphRoot"), sequence, task.asked.above, NONE, (), NONE, NONE,
            NONE, task.thread, task.step, task.begin, NONE,
        ))  # fmt: skip
        self._edges += [(number, i, node, nr) for i, (node, nr) in enumerate(roots)]

    def _seen(self, ops: Ops, saved: dict[str, Ints]) -> None:
        """Use observed calls; the others stay derived from their nodes."""
        session, values = self._session, self._values
        given = take_all(self._operands_of_nodes)
        operands = [] if self.walked is None else self.walked.operands()
        given += operands
        if given:
            node, _, tensor = np.concatenate(given, axis=1)
            ops.with_operands(node, tensor)
        missed, writes = ops.seen(
            self._calls,
            session.contexts.threads.idents(),
            session.start,
            self._intern,
        )
        self.unnamed += missed
        if writes or self._writes:
            self._writes.settle(
                writes,
                (ops.inputs, ops.outputs),
                saved,
                self._put_writes,
                self.in_place.versions,
            )
        same = self.operands.settle(ops, saved)
        for columns in operands if same else ():
            columns[2] = [same.get(each, each) for each in columns[2].tolist()]
        values.operands(operands)
        if values.on and len(ops.rows):
            number, task, step = (ops.column(name)[ops.last] for name in ("id", "task", "step"))
            values.made(ops.rows, number, ops.outputs.take(ops.last), task, step)

    def _tensor(self, node: SavedByNode, value: FoundSavedValue) -> int:
        """The tensor of a saved value: by its node, as a leaf, or as the node's own result."""
        tensor, record = value.tensor, node.record
        if value.output_of is not None:
            found = value.output_of.topological >= 0  # by a traversal
            if found and value.output_nr < value.output_of.many:
                return self.result(value.output_of, value.output_nr, tensor)
        elif tensor.requires_grad:
            return self._tensors.number_of(tensor)
        nr = value.own
        if nr is not None and nr < record.many and [*node.shape(nr)] == [*shape_of(tensor)]:
            return self.result(record, nr, tensor)
        key, constants = self._tensors.key(tensor), self._tensors.constants
        number = constants.get(key)
        if number is None:
            number = constants[key] = self._next()
            self._tensors.describe(number, tensor, NONE)
            self._tensors.buffers.name([(number, key)])
            if self._values.on and nr is None and value.output_of is None:
                at = max(node.record.t - self._session.start, 0)
                self._values.look(Place.LEAF, tensor, tensor=number, at=at)
        if value.argument and value.output_of is None:  # no node created it
            self._operands_of_nodes.append(
                np.array([[node.record.number], [NONE], [number]], np.int64)
            )
        return number

    def result(self, record: NodeRecord, nr: int, tensor: Any) -> int:
        """Describe the output of a node, now that the tensor is available. Returns its number.

        Without machine code, its values are measured now, if nothing has written to it since.
        """
        number = _output(record, nr)
        is_new = nr < record.many and self._tensors.complete(number, tensor)
        looks = self._values.on and self._calls.observer is None
        measured = is_new and looks and tensor.dtype.is_floating_point
        if not (measured and isinstance(record, PythonNodeRecord) and record.context):
            return number  # without a context it has no call
        if not tensor.is_inference() and tensor._version == 0:
            at = max(record.t - self._session.start, 0)
            task = self._session.contexts.rows[record.context][2]
            self._values.look(Place.OP_OUTPUT, tensor, record.number, nr, number, task, at=at)
        return number

    def _put_writes(self, rows: list[tuple[int, ...]]) -> None:
        names = ("storage", "tensor", "old", "new", "op", "stack", "thread", "t")
        put(self._session.writer.block, schema.Version, names, rows)

    def put_calls(self, parts: list[tuple[list[str], Ints]], moves: Moves, *, over: bool) -> None:
        """Rows of observed calls that created no node."""
        contexts, write = self._session.contexts, self._session.writer.block
        threads = {ident: thread for thread, ident in contexts.threads.idents().items()}
        rows = [np.zeros(0, np.int64)]
        for names, (begin, end, idents, words, places, stamps) in parts:
            begun = begin - self._session.start
            thread = np.array([threads.get(ident, NONE) for ident in idents.tolist()], np.int64)
            _, module, task, _, phase = moves.at(thread, begin).T.copy()
            seen = self.in_place.ops(begin, idents, words)
            ids = np.array([each if each != NONE else self._next() for each in seen.tolist()])
            stack = self.in_place.stacks(places)
            rows.append(ids)
            told = self.operands.of_calls(stamps, ids)
            write(schema.Op, {
                "id": ids,
                "name": [self._intern(name) for name in names],
                "begin": begun, "end": end - self._session.start, "thread": thread,
                "step": contexts.steps.at(begun), "module": module, "task": task, "phase": phase,
                "stack": stack, "inputs": told.inputs, "outputs": told.outputs,
            })  # fmt: skip
            if told.writes:
                place = told.writes["place"]
                new = self.in_place.not_told(ids[place]) & (phase[place] != schema.Phase.OPTIMIZER)
                new &= (task[place] == NONE) | (stack[place] != NONE)  # else by the engine
                place, *columns = (each[new] for each in told.writes.values())
                write(schema.Version, dict(zip(WRITTEN[1:], columns, strict=True)) | {
                    "op": ids[place], "stack": stack[place], "thread": thread[place],
                    "t": end[place] - self._session.start,
                })  # fmt: skip
        self.in_place.told(np.concatenate(rows), over=over)
        self.operands.forget(*self._calls.waiting())

    def flush(self) -> None:
        """Pass new rows to the writer."""
        write = self._session.writer.block
        gone = None if self.releases is None else self.releases.nodes.read()
        rows = take_all(self._ops)
        parts = [of_rows(rows)] if rows else []
        if self.walked is not None:
            parts += self.walked.take()
        ops, saved = Ops(parts), self._all_saved()
        names = ("id", "name", "sequence_nr", "topological_nr", "op", "inputs", "task", "module",
                 "stack", "thread", "step", "t", "region")  # fmt: skip
        if len(ops):
            self._seen(ops, saved)
        self.in_place.settle(ops, saved, over=not UnderWay.now)
        self.not_finite.write()
        if self.walked is not None:
            self.walked.write()
        merged = self._tensors.merged
        for row in self._nodes if merged else ():  # some tensors were identified with others
            if isinstance(row[5], list):
                row[5][:] = [merged.get(each, each) for each in row[5]]
        put(write, schema.Node, names, self._nodes)
        put(write, schema.Edge, ("node", "index", "next", "input_nr"), self._edges)
        self.arguments.write(self._session.writer)
        self.compiled.flush()
        ops.write(write)
        if saved:
            write(tables.ShortSaved, saved)
        if self.releases is not None and gone is not None:
            self.releases.nodes.write(gone)
            self.releases.storages.flush()

    def _all_saved(self) -> dict[str, Ints]:
        """Saved values, in columns."""
        rows = take_all(self._saved)
        parts = [] if self.walked is None else take_all(self.walked.saved)
        if rows:
            table = np.array(rows, np.int64).T
            parts.append(dict(zip(SAVED, table, strict=True)))
        if not parts:
            return {}
        return {name: np.concatenate([part[name] for part in parts]) for name in SAVED}
