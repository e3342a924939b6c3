"""What a tensor was computed from: the operands of each recorded value."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from gradscope.analysis.nonfinite.inner import inner_ops
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import (
    NONE,
    Accumulate,
    Accumulation,
    Decrement,
    Edge,
    HookEnd,
    HookKind,
    Node,
    Op,
    Place,
    Saved,
    Storage,
    Tensor,
    Value,
    Version,
)
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class Finiteness:
    """Whether a value contained a NaN, and whether it contained an Inf."""

    nan: bool
    inf: bool
    cause: int = field(default=NONE, compare=False)  # the value at which it all began


FINE = Finiteness(nan=False, inf=False)

WHOLE = ("int", "uint", "bool")
"""Dtypes of indices and masks: such operands have no edge."""

Slot = tuple[int, int, int]  # graph task, node, index
FRESH = (Accumulation.STOLEN, Accumulation.CLONED)


class AliasWrites:
    """In-place writes to storages, which affect all tensors that share them."""

    def __init__(self, trace: Trace) -> None:
        self._storage_of = dict(_pairs(trace, Tensor, "id", "storage"))
        self._written_by = dict(_pairs(trace, Version, "op", "storage"))
        self._tensor_bytes = dict(_pairs(trace, Tensor, "id", "bytes"))
        self._storage_bytes = dict(_pairs(trace, Storage, "id", "bytes"))
        self._bad: dict[int, Finiteness] = {}  # by storage

    def given(self, tensor: int) -> Finiteness | None:
        """The non-finite values that were written to the storage of a tensor."""
        return self._bad.get(self._storage_of.get(tensor, NONE))

    def keep(self, row: Value, state: Finiteness) -> None:
        """Record an in-place write of a call; a finite write to all of a storage clears it."""
        storage = self._written_by.get(row.op)
        if storage is None:
            return
        if state != FINE:
            self._bad[storage] = _both(self._bad.get(storage, FINE), state)
        elif self._tensor_bytes.get(row.tensor) == self._storage_bytes.get(storage):
            self._bad.pop(storage, None)


class Lineage:
    """Processes values in the order of time, and tracks the values of their operands."""

    def __init__(self, trace: Trace) -> None:
        self._inputs_of_op = _inputs_of_op(trace)
        self._unknown = _unknown_operands(trace)
        self._saved_by = _saved_by(trace)
        self._senders = _senders(trace)
        self._edges = _edges_into(trace)
        self._told = set(trace.table(Decrement)["task"].tolist())
        self._hook_kinds = _by_seq(trace, HookEnd, "hook")
        self._fresh = _fresh_grads(trace)
        self._tensors: dict[int, Finiteness] = {}  # by tensor id: the last recorded state
        self._arriving: dict[Slot, Finiteness] = {}  # at an input of a node, hooks applied
        self._leaving: dict[Slot, Finiteness] = {}  # at an output of a node, hooks applied
        self._taken: dict[tuple[int, int], list[Finiteness]] = defaultdict(list)
        self._grads: dict[int, Finiteness] = {}  # `.grad`, by leaf
        self._grad_tensors: dict[int, int] = {}  # by leaf: the tensor that is its `.grad`
        self._leaf_of_grad: dict[int, int] = {}  # by `.grad`: its leaf
        self._leaf_of_node = _leaf_of_node(trace)
        self._inner = inner_ops(trace)
        self._writes = AliasWrites(trace)

    def operands(self, row: Value, place: Place) -> list[Finiteness | None]:
        """The operands of this value; None for an operand without statistics."""
        slot = (row.task, row.node, row.index)
        match place:
            case Place.OP_OUTPUT if row.op in self._inner:
                return [_finiteness(row)]
            case Place.OP_OUTPUT:
                known = [self._tensor(id) for id in self._inputs_of_op.get(row.op, ())]
                return [*known, *[None] * self._unknown.get(row.op, 0)]
            case Place.SEED:
                return self._earlier(row.tensor)
            case Place.LEAF if row.node != NONE:  # a gradient recorded at its origin
                return [_finiteness(row)]
            case Place.LEAF:
                return [*self._earlier(row.tensor), *self._earlier_grad(row.tensor)]
            case Place.BUFFER:
                return [*self._kept(slot), *self._arrivals(slot, row.seq)]
            case Place.NODE_INPUT:
                return self._kept(slot) or self._arrivals(slot, NONE)
            case Place.NODE_OUTPUT:
                saved = [self._tensor(id) for id in self._saved_by.get(row.node, ())]
                made_by_user = self._earlier(row.tensor)
                return [*self._taken[row.task, row.node], *saved, *made_by_user]
            case Place.GRAD:
                return [*self._taken[row.task, row.node], *self._grad_before(row)]
            case Place.HOOK:
                return self._before_hook(row, slot)

    def keep(self, row: Value, place: Place, cause: int = NONE) -> None:
        """Record this value for those computed from it."""
        state = _finiteness(row, cause)
        slot = (row.task, row.node, row.index)
        match place:
            case Place.BUFFER | Place.SEED:
                self._arriving[slot] = state
            case Place.NODE_INPUT:
                self._taken[row.task, row.node].append(state)
            case Place.NODE_OUTPUT:
                self._leaving[slot] = state
            case Place.GRAD:
                self._keep_grad(row.tensor, state)
            case Place.LEAF if row.index == NONE and row.node in self._leaf_of_node:
                leaf = self._leaf_of_node[row.node]
                self._leaf_of_grad[row.tensor] = leaf
                self._grad_tensors[leaf] = row.tensor
            case Place.HOOK:
                self._keep_hook(row, slot, state)
        if place is Place.OP_OUTPUT:
            self._writes.keep(row, state)
        if row.tensor != NONE and place is not Place.GRAD:
            self._tensors[row.tensor] = state
            if row.tensor in self._leaf_of_grad:
                self._grads[self._leaf_of_grad[row.tensor]] = state

    def _tensor(self, id: int) -> Finiteness | None:
        """The last recorded state of a tensor, or a later write through an alias of it."""
        seen = self._tensors.get(id)
        given = self._writes.given(id)
        if seen is None or given is None:
            return seen
        return _both(seen, given)

    def _keep_grad(self, leaf: int, state: Finiteness) -> None:
        self._grads[leaf] = state
        if leaf in self._grad_tensors:
            self._tensors[self._grad_tensors[leaf]] = state

    def _earlier(self, tensor: int) -> list[Finiteness | None]:
        return [self._tensors[tensor]] if tensor in self._tensors else []

    def _earlier_grad(self, leaf: int) -> list[Finiteness | None]:
        """For a leaf updated by an optimizer: its earlier gradient."""
        return [self._grads[leaf]] if leaf in self._grads else []

    def _kept(self, slot: Slot) -> list[Finiteness | None]:
        return [self._arriving[slot]] if slot in self._arriving else []

    def _arrivals(self, slot: Slot, until: int) -> list[Finiteness | None]:
        """The gradients that other nodes sent to this input, up to an event."""
        task, node, nr = slot
        if task not in self._told:  # not inferred: all that could have sent one
            sent = (self._leaving.get((task, *end)) for end in self._edges.get((node, nr), ()))
            return [each for each in sent if each is not None]
        return [
            self._leaving.get((task, source, index))
            for source, index, seq in self._senders.get(slot, ())
            if until == NONE or seq <= until
        ]

    def _grad_before(self, row: Value) -> list[Finiteness | None]:
        fresh = self._fresh.get(row.seq)
        if fresh or (fresh is None and row.tensor not in self._grads):
            return []
        return [self._grads.get(row.tensor)]

    def _before_hook(self, row: Value, slot: Slot) -> list[Finiteness | None]:
        kind = self._hook_kinds.get(row.seq)
        if kind == HookKind.POST_ACCUMULATE:
            return self._earlier_grad(row.tensor)
        if kind == HookKind.POST:
            return [self._leaving.get(slot)]
        return self._kept(slot) or self._arrivals(slot, NONE)

    def _keep_hook(self, row: Value, slot: Slot, state: Finiteness) -> None:
        kind = self._hook_kinds.get(row.seq)
        if kind == HookKind.POST_ACCUMULATE:
            self._keep_grad(row.tensor, state)
        elif kind == HookKind.POST:
            self._leaving[slot] = state
        else:
            self._arriving[slot] = state


def _pairs(
    trace: Trace, kind: type[Tensor | Storage | Version], key: str, value: str
) -> Iterator[tuple[int, int]]:
    table = trace.table(kind)
    return zip(table[key].tolist(), table[value].tolist(), strict=True)


def _finiteness(row: Value, cause: int = NONE) -> Finiteness:
    return Finiteness(row.nan > 0, row.posinf > 0 or row.neginf > 0, cause)


def _both(one: Finiteness, other: Finiteness) -> Finiteness:
    cause = other.cause if one.cause == NONE else one.cause
    return Finiteness(one.nan or other.nan, one.inf or other.inf, cause)


def _leaf_of_node(trace: Trace) -> dict[int, int]:
    """The leaf of each node that accumulates a gradient: it has no call and one input tensor."""
    nodes = trace.table(Node)
    gathers = np.flatnonzero((nodes["op"] == NONE) & (nodes.ragged("inputs").lengths == 1))
    return {row.id: row.inputs[0] for row in nodes.take(gathers)}


def _inputs_of_op(trace: Trace) -> dict[int, tuple[int, ...]]:
    ops = trace.table(Op)
    return dict(zip(ops["id"].tolist(), ops.ragged("inputs").tuples(), strict=True))


def are_inputs_inferred(trace: Trace) -> bool:
    """Whether inputs of calls are only known if nodes show them."""
    return "op.inputs" in trace.meta.get("inferred", ())


def without_operands(trace: Trace) -> np.ndarray:
    """Positions of calls that created no node, whose inputs are not known."""
    ops = trace.table(Op)
    if not are_inputs_inferred(trace):
        return np.zeros(0, np.int64)
    return np.flatnonzero((ops["node"] == NONE) & (ops.ragged("inputs").lengths == 0))


def _unknown_operands(trace: Trace) -> dict[int, int]:
    """How many operands of each call are unknown, where inputs are inferred from nodes.

    An operand that needs no gradient is known only if the node saves it; a call without a node has
    no known operands.
    """
    if not are_inputs_inferred(trace):
        return {}
    edges, tensors = trace.table(Edge), trace.table(Tensor)
    nowhere = Counter(edges["node"][edges["next"] == NONE].tolist())
    whole = [n for n in distinct(tensors["dtype"]).tolist() if trace.text(n).startswith(WHOLE)]
    ends = tensors["requires_grad"].astype(bool) | np.isin(tensors["dtype"], whole)
    made = dict(zip(tensors["id"].tolist(), ends.tolist(), strict=True))
    found = {}
    for op, node, inputs in zip(
        *(trace.table(Op)[name].tolist() for name in ("id", "node")),
        trace.table(Op).ragged("inputs").tuples(),
        strict=True,
    ):
        kept = sum(not made.get(tensor, True) for tensor in inputs)
        found[op] = max(nowhere.get(node, 0) - kept, int(node == NONE and not inputs))
    return found


def _saved_by(trace: Trace) -> dict[int, list[int]]:
    saved = trace.table(Saved)
    found: dict[int, list[int]] = defaultdict(list)
    for node, tensor in zip(saved["node"].tolist(), saved["tensor"].tolist(), strict=True):
        if tensor != NONE:
            found[node].append(tensor)
    return found


def _senders(trace: Trace) -> dict[Slot, list[tuple[int, int, int]]]:
    """For each input of a node in a graph task: which node's output arrived, at which event."""
    edges = trace.table(Edge)
    columns = (edges[name].tolist() for name in ("node", "index", "input_nr"))
    input_nrs = {(node, index): input_nr for node, index, input_nr in zip(*columns, strict=True)}
    arrived = trace.table(Decrement)
    found: dict[Slot, list[tuple[int, int, int]]] = defaultdict(list)
    names = ("task", "node", "source", "index", "seq")
    columns = (arrived[name].tolist() for name in names)
    for task, node, source, index, seq in zip(*columns, strict=True):
        input_nr = input_nrs.get((source, index), 0)
        found[task, node, input_nr].append((source, index, seq))
    return found


def _edges_into(trace: Trace) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """For each input of a node, the outputs that lead to it."""
    edges = trace.table(Edge)
    found: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    names = ("node", "index", "next", "input_nr")
    for node, index, following, nr in zip(*(edges[n].tolist() for n in names), strict=True):
        found[following, nr].append((node, index))
    return found


def _by_seq(trace: Trace, kind: type[HookEnd | Accumulate], column: str) -> dict[int, int]:
    table = trace.table(kind)
    return dict(zip(table["seq"].tolist(), table[column].tolist(), strict=True))


def _fresh_grads(trace: Trace) -> dict[int, bool]:
    """By event: whether the gradient became `.grad` unchanged, without an addition."""
    return {seq: how in FRESH for seq, how in _by_seq(trace, Accumulate, "how").items()}
