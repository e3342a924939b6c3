"""Facts about calls, and about data that no recorded call created."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from gradscope.analysis.graph.forward.aside import Aside
from gradscope.analysis.graph.forward.calls import ForwardCalls, InPlaceWrite
from gradscope.analysis.graph.graph import NodeSaved, TensorMeta, metas_of, saved_of
from gradscope.analysis.identity.leaves import leaf
from gradscope.analysis.identity.names import node_names
from gradscope.analysis.identity.sites import Site, site_of
from gradscope.analysis.lookups import Ids, member
from gradscope.analysis.program.modules import module_names
from gradscope.trace.schema import NONE, Module, Saved, Tensor, Version, Why
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class CallFacts:
    """One forward call."""

    place: int
    id: int
    name: str
    unique: str  # "mul#2"
    site: Site
    module: str
    results: tuple[TensorMeta | None, ...]
    node: int  # NONE: it created none
    node_name: str  # "MulBackward0#2"
    why: Why | None  # why there is no node; None: not recorded
    saved: tuple[NodeSaved, ...]
    overwritten: frozenset[int]  # ids of saved values that were modified before their release
    packed: frozenset[int]  # ids of values packed by a hook
    writes: tuple[tuple[str, InPlaceWrite], ...]  # each with the name of the tensor, if any
    inside: int  # number of inner calls that this one stands for
    ns: int  # NONE: unknown


@dataclass(frozen=True, slots=True)
class Data:
    """An input of calls that no recorded call created."""

    tensor: int
    name: str  # "" if it has no name
    guessed: bool  # taken from the line `name = torch.…(…)`
    parameter: bool  # a leaf that requires grad
    gradient: bool  # created by the engine
    meta: TensorMeta | None

    @property
    def title(self) -> str:
        """The title of its box."""
        return self.name or ("gradient" if self.gradient else "data")


def calls_at(trace: Trace, places: Iterable[int]) -> dict[int, CallFacts]:
    known = np.array(list(places), np.int64)
    calls = trace.once(ForwardCalls)
    nodes = calls.node[known]
    of_nodes = np.isin(trace.table(Saved)["node"], nodes)
    kept, hooked = (trace.table(Saved)[column][of_nodes] for column in ("tensor", "hooked"))
    packed = frozenset(trace.table(Saved)["id"][of_nodes][hooked].tolist())
    results = [np.array(calls.outputs[place], np.int64) for place in known.tolist()]
    metas = metas_of(trace, np.concatenate([kept, *results]).astype(np.int64))
    saved = saved_of(trace, nodes.tolist(), metas)
    written = _overwritten(trace, nodes)
    names, modules = node_names(trace), module_names(trace)
    observed = trace.sees("op.why")
    found = {}
    for place, node in zip(known.tolist(), nodes.tolist(), strict=True):
        end, row = int(calls.end[place]), int(calls.rows[place])
        why = int(calls.ops["why"][row])
        found[place] = CallFacts(
            place=place,
            id=int(calls.id[place]),
            name=calls.names[place],
            unique=calls.of(place),
            site=site_of(trace, int(calls.stack[place])),
            module=modules.get(int(calls.module[place]), ""),
            results=tuple(map(metas.get, calls.outputs[place])),
            node=node,
            node_name=names.of(node) if node != NONE else "",
            why=member(Why, why) if node == NONE and observed and why != Why.MADE else None,
            saved=tuple(saved[node]) if node != NONE else (),
            overwritten=written,
            packed=packed,
            writes=tuple((_name(trace, each.tensor), each) for each in calls.written(place)),
            inside=calls.within.get(row, 0),
            ns=end - int(calls.begin[place]) if end != NONE else NONE,
        )
    return found


def _name(trace: Trace, tensor: int) -> str:
    known = leaf(trace, tensor)
    return known.name if known else ""


def _overwritten(trace: Trace, nodes: Ids) -> frozenset[int]:
    """The saved values of these nodes that were modified while they were saved."""
    versions, tensors = trace.table(Version), trace.table(Tensor)
    if not len(versions):
        return frozenset()
    writes: dict[int, list[tuple[int, int]]] = defaultdict(list)
    columns = (versions[name].tolist() for name in ("storage", "new", "t"))
    for storage, new, t in zip(*columns, strict=True):
        if storage != NONE:
            writes[storage].append((new, t))
    found = set()
    kept = trace.table(Saved)
    for row in kept.take(np.flatnonzero(np.isin(kept["node"], nodes))):
        if NONE in (row.tensor, row.version) or not tensors.has(row.tensor):
            continue
        storage = int(tensors["storage"][tensors.index(row.tensor)])
        until = row.released
        if any(
            new > row.version and t >= row.t and (until == NONE or t <= until)
            for new, t in writes.get(storage, ())
        ):
            found.add(row.id)
    return frozenset(found)


def data_of(trace: Trace, tensors: Collection[int]) -> dict[int, Data]:
    table = trace.table(Tensor)
    wanted = np.fromiter(tensors, np.int64, len(tensors))
    metas = metas_of(trace, wanted)
    calls = trace.once(ForwardCalls)
    engines = trace.once(Aside).engines.tolist()
    gradients = {each for place in engines for each in calls.outputs[place]}
    owned = set(trace.table(Module).ragged("parameters").values.tolist())
    found = {}
    for tensor in wanted.tolist():
        known = leaf(trace, tensor)
        row = table.row(tensor) if known else None
        found[tensor] = Data(
            tensor=tensor,
            name=known.name if known else "",
            guessed=bool(known and known.guessed),
            parameter=tensor in owned or bool(row and row.leaf and row.requires_grad),
            gradient=tensor in gradients,
            meta=metas.get(tensor),
        )
    return found
