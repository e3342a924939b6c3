"""What each call was given, and which call made or wrote that."""

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
"""Under these names nodes keep what their call was given; under others also what it returned."""


class Flow(NamedTuple):
    """A tensor that a call was given."""

    user: int  # the call's place
    maker: int  # the place of the call that made or last wrote it; NONE: none that is known
    tensor: int
    output: int = NONE  # which of the maker's results it is; NONE: it was written, or is data
    shared: bool = False  # the maker wrote, or made, another view of the same memory
    kept: str = ""  # under this name a node keeps it; that it is the same follows from that


class Flows:
    """All flows of a trace, by the user's place."""

    def __init__(self, trace: Trace) -> None:
        self.calls = trace.once(ForwardCalls)
        self.all = list(_Following(trace, self.calls).flows())
        self.user: Ids = np.array([flow.user for flow in self.all], np.int64)
        self.maker: Ids = np.array([flow.maker for flow in self.all], np.int64)


class _Following:
    """Goes through the calls in time, and knows who made and who last wrote each tensor."""

    def __init__(self, trace: Trace, calls: ForwardCalls) -> None:
        self._calls = calls
        tensors = trace.table(Tensor)
        pairs = zip(tensors["id"].tolist(), tensors["storage"].tolist(), strict=True)
        self._storage: dict[int, int] = {id: storage for id, storage in pairs if storage != NONE}
        self._made: dict[int, tuple[int, int]] = {}  # by tensor: the call, and which result
        self._wrote: dict[int, tuple[int, int]] = {}  # by memory: the call, and through which
        self._laid: dict[int, int] = {}  # by memory: who made the first tensor in it
        self._leaves = {*tensors["id"][tensors["leaf"] & tensors["requires_grad"]].tolist()}
        self._told = _told_by_tensors(calls, tensors)
        made = {tensor for outputs in calls.outputs for tensor in outputs}
        given = {tensor for inputs in calls.inputs for tensor in inputs}
        self._unmade = bool(given - made - self._leaves)  # there are some that nobody made
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
        """Who made a tensor, which result it is; or who made another in the same memory."""
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
    """By tensor, the call that made it: in a recording a reader may be told before the maker."""
    places = {id: place for place, id in enumerate(calls.id.tolist())}
    pairs = zip(tensors["id"].tolist(), tensors["op"].tolist(), strict=True)
    return {tensor: (places[op], NONE) for tensor, op in pairs if op in places}


def _unpacked(trace: Trace, calls: ForwardCalls) -> dict[int, int]:
    """By tensor that a call in a backward was given and nothing made: the result that it is.

    A node of gradscope's engine keeps its result as numbers, of which its formula makes another
    tensor: no leaf, without a maker, of the shape of the one result that the node keeps.
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
    """By place, the node that had begun last in the backward that a call ran in."""
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
    """By node, the tensors among what it keeps that its call was given, by the names of slots."""
    found: dict[int, list[tuple[int, str]]] = {}
    for row in trace.rows(Saved):
        if row.slot in ARGUMENTS and row.tensor != NONE:
            found.setdefault(row.node, []).append((row.tensor, row.slot))
    return found
