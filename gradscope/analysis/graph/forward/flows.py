"""The inputs of calls, and the calls that created or wrote them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gradscope.analysis.graph.forward.calls import ForwardCalls
from gradscope.analysis.lookups import Ids
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, NodeBegin, Saved, Tensor
from gradscope.trace.table import Table
from gradscope.trace.trace import Trace

ARGUMENTS = frozenset({
    "self", "other", "mat1", "mat2", "vec", "vec1", "vec2", "batch1", "batch2", "input", "weight",
    "bias", "target", "mask", "condition", "tensor1", "tensor2", "query", "key", "value", "source",
    "src", "grid", "grad_output", "index", "end", "x1", "x2",
})  # fmt: skip
"""Names of slots that save inputs of the call; others may also save results."""


class Flow(NamedTuple):
    """A tensor that is an input of a call."""

    user: int  # the call's place
    maker: int  # the place of the call that created or last wrote it; NONE: unknown
    tensor: int
    output: int = NONE  # the output of the maker; NONE: written, or data
    shared: bool = False  # the maker wrote or created another view of the same memory
    kept: str = ""  # the slot of the node that saves it, from which this was inferred


class Flows:
    """All flows of a trace, by the place of the user."""

    def __init__(self, trace: Trace) -> None:
        self.calls = trace.once(ForwardCalls)
        self.all = list(_Following(trace, self.calls).flows())
        self.user: Ids = np.array([flow.user for flow in self.all], np.int64)
        self.maker: Ids = np.array([flow.maker for flow in self.all], np.int64)


class _Following:
    """Processes calls in time order, and tracks the creator and last writer of each tensor."""

    def __init__(self, trace: Trace, calls: ForwardCalls) -> None:
        self._calls = calls
        tensors = trace.table(Tensor)
        pairs = zip(tensors["id"].tolist(), tensors["storage"].tolist(), strict=True)
        self._storage: dict[int, int] = {id: storage for id, storage in pairs if storage != NONE}
        self._made: dict[int, tuple[int, int]] = {}  # by tensor: the call and its output
        self._wrote: dict[int, tuple[int, int]] = {}  # by memory: the call and the tensor
        self._laid: dict[int, int] = {}  # by memory: the creator of the first tensor in it
        self._leaves = {*tensors["id"][tensors["leaf"] & tensors["requires_grad"]].tolist()}
        self._told = _told_by_tensors(calls, tensors)
        made = {tensor for outputs in calls.outputs for tensor in outputs}
        given = {tensor for inputs in calls.inputs for tensor in inputs}
        self._unmade = bool(given - made - self._leaves)  # some inputs have no creator
        self._same = _unpacked(trace, calls)
        inferred = trace.meta.get("inferred", ())
        follows = "op.inputs" in inferred and "op.outputs" not in inferred
        self._kept = _kept_arguments(trace) if follows else {}

    def flows(self) -> Iterator[Flow]:
        calls = self._calls
        nodes = calls.node.tolist()
        writing = {name: name.rstrip("_") + "_" == name for name in set(calls.names)}
        for place, (inputs, outputs) in enumerate(zip(calls.inputs, calls.outputs, strict=True)):
            writes = calls.written(place)
            given = dict.fromkeys([*inputs, *(write.tensor for write in writes)])
            for tensor in inputs:
                yield from self._from(place, tensor)
            for tensor in list(given)[len(dict.fromkeys(inputs)) :] if writes else ():
                yield from self._from(place, tensor)
            for tensor, slot in self._kept.get(nodes[place], ()) if self._kept else ():
                if tensor not in given and tensor not in outputs:
                    for flow in self._from(place, tensor):
                        yield flow._replace(kept=slot)
            in_place = bool(writes) or writing[calls.names[place]]
            lies = {self._memory(tensor) for tensor in given} if self._unmade else ()
            for number, tensor in enumerate(outputs):
                if tensor in given and in_place:
                    self._wrote[self._memory(tensor)] = place, tensor
                elif tensor not in given:
                    self._made[tensor] = place, number
                    if self._unmade and self._memory(tensor) not in lies:
                        self._laid.setdefault(self._memory(tensor), place)
            for write in writes:
                self._wrote[self._memory(write.tensor)] = place, write.tensor

    def _from(self, user: int, tensor: int) -> Iterator[Flow]:
        same = self._same.get(tensor, tensor)
        kept = "result" if same != tensor else ""
        maker, output, shared = self._maker(user, same)
        writer, through = self._wrote.get(self._memory(same), (NONE, NONE))
        if writer > maker:
            yield Flow(user, writer, tensor, shared=through != same, kept=kept)
            if through == same:
                return
        yield Flow(user, maker, tensor, output, shared, kept)

    def _maker(self, user: int, tensor: int) -> tuple[int, int, bool]:
        """The creator of a tensor and its output, or the creator of another in the same memory."""
        made = self._made.get(tensor)
        if made is None and tensor not in self._leaves:
            made = self._told.get(tensor)
            if made is None or made[0] >= user:
                laid = self._laid.get(self._memory(tensor))
                return (NONE, NONE, False) if laid is None else (laid, NONE, True)
        return (*(made or (NONE, NONE)), False)

    def _memory(self, tensor: int) -> int:
        return self._storage.get(tensor, -2 - tensor)


def _told_by_tensors(calls: ForwardCalls, tensors: Table[Tensor]) -> dict[int, tuple[int, int]]:
    """The creator of each tensor: the reader may be recorded before the creator."""
    places = {id: place for place, id in enumerate(calls.id.tolist())}
    pairs = zip(tensors["id"].tolist(), tensors["op"].tolist(), strict=True)
    return {tensor: (places[op], NONE) for tensor, op in pairs if op in places}


def _unpacked(trace: Trace, calls: ForwardCalls) -> dict[int, int]:
    """For inputs without a creator of calls in a backward: the saved result they stand for.

    A node of gradscope's engine saves its result as an array, from which its formula creates
    another tensor: not a leaf, without a creator, with the shape of the only saved result.
    """
    tensors, saved = trace.table(Tensor), trace.table(Saved)
    unmade = ~tensors["leaf"] & (tensors["op"] == NONE)
    odd = {row.id: row for row in tensors.take(np.flatnonzero(unmade))}
    tasks = calls.ops["task"][calls.rows]
    within = np.flatnonzero(tasks != NONE).tolist() if odd else ()
    running = _running(trace, tasks, calls) if within else tasks
    results: dict[int, list[Tensor]] = {}
    for row in saved.rows() if within else ():
        if row.slot.startswith("result") and tensors.has(row.tensor):
            results.setdefault(row.node, []).append(tensors.row(row.tensor))
    found: dict[int, int] = {}
    for place in within:
        for tensor in odd.keys() & set(calls.inputs[place]):
            kind = odd[tensor].shape, odd[tensor].dtype
            kept = results.get(int(running[place]), ())
            alike = {each.id for each in kept if (each.shape, each.dtype) == kind}
            if len(alike) == 1 and tensor not in alike:
                found.setdefault(tensor, alike.pop())
    return found


def _running(trace: Trace, tasks: Ids, calls: ForwardCalls) -> Ids:
    """By place, the node that started last in the backward of a call."""
    begins = trace.table(NodeBegin)
    found = np.full(len(tasks), NONE, np.int64)
    for task in distinct(tasks[tasks != NONE]).tolist():
        of_task = begins["task"] == task
        began, nodes = begins["t"][of_task], begins["node"][of_task]
        order = np.argsort(began, kind="stable")
        own = np.flatnonzero(tasks == task)
        last = np.searchsorted(began[order], calls.begin[own], "right") - 1
        found[own[last >= 0]] = nodes[order][last[last >= 0]]
    return found


def _kept_arguments(trace: Trace) -> dict[int, list[tuple[int, str]]]:
    """By node, the inputs of its call among its saved values, by the names of slots."""
    found: dict[int, list[tuple[int, str]]] = {}
    for row in trace.rows(Saved):
        if row.slot in ARGUMENTS and row.tensor != NONE:
            found.setdefault(row.node, []).append((row.tensor, row.slot))
    return found
