"""Facts about each module of the model."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gradscope.analysis.ranks.whose import RankOf
from gradscope.analysis.timing.durations import backward_ns_of_modules, ns_of_ops
from gradscope.analysis.timing.phases import ProgramPart
from gradscope.trace.schema import NONE, Module, Node, Op
from gradscope.trace.trace import Table, Trace

DEEPEST = 24
"""Modules nested deeper than this are counted as their parents."""


@dataclass(frozen=True, slots=True)
class ModuleFacts:
    """One module; counts exclude its children."""

    id: int
    name: str  # as in `module_names`
    path: str
    type: str
    parent: int
    parameters: int
    ops: int
    nodes: int
    forward_ns: int  # time in operations
    backward_ns: int
    rank: int = NONE  # of the process, in a merged trace


def modules(trace: Trace) -> tuple[ModuleFacts, ...]:
    times = backward_ns_of_modules(trace)
    forward = ns_of_ops(trace, ProgramPart.FORWARD, "module")
    names, ranks = module_names(trace), _ranks(trace)
    ops, nodes = _counts(trace.table(Op)), _counts(trace.table(Node))
    return tuple(
        ModuleFacts(
            id=module.id,
            name=names[module.id],
            path=module.path,
            type=module.type,
            parent=module.parent,
            parameters=len(module.parameters),
            ops=ops.get(module.id, 0),
            nodes=nodes.get(module.id, 0),
            forward_ns=forward.get(module.id, 0),
            backward_ns=times.get(module.id, 0),
            rank=ranks[module.id],
        )
        for module in trace.rows(Module)
    )


def module_names(trace: Trace) -> dict[int, str]:
    """Paths of modules by id; with several models each begins with its name, "generator.0".

    In a merged trace, the modules of different ranks have the same names.
    """
    by_id = {module.id: module for module in trace.rows(Module)}
    roots: defaultdict[int, list[Module]] = defaultdict(list)
    ranks = _ranks(trace)
    for module in by_id.values():
        if not module.path:
            roots[ranks[module.id]].append(module)
    if all(len(of_rank) < 2 for of_rank in roots.values()):
        return {id: module.path for id, module in by_id.items()}
    models = {id: name for of_rank in roots.values() for id, name in _models(of_rank).items()}
    parts = {id: (models.get(_root(each, by_id)), each.path) for id, each in by_id.items()}
    return {id: ".".join(part for part in pair if part) for id, pair in parts.items()}


def _ranks(trace: Trace) -> dict[int, int]:
    """The rank of each module; NONE in the trace of one process."""
    ids = trace.table(Module).array("id")
    return dict(zip(ids.tolist(), trace.once(RankOf).of(Module.TABLE, ids).tolist(), strict=True))


def _models(roots: Sequence[Module]) -> dict[int, str]:
    """The name of each model: the variable in the program, or else its type.

    Further ones with the same name are numbered.
    """
    seen: Counter[str] = Counter()
    names = {}
    for root in roots:
        name = root.name or root.type
        seen[name] += 1
        number = seen[name]
        names[root.id] = f"{name}#{number}" if number > 1 else name
    return names


def _root(module: Module, by_id: dict[int, Module]) -> int:
    """The id of the model that contains a module: the nearest ancestor without a path."""
    around = {module.id}
    while module.path and module.parent in by_id and module.parent not in around:
        module = by_id[module.parent]
        around.add(module.id)
    return module.id


def _counts(table: Table[Op] | Table[Node]) -> dict[int, int]:
    found, counts = np.unique(table["module"], return_counts=True)
    return dict(zip(found.tolist(), counts.tolist(), strict=True))


def parts_of(path: str) -> Iterator[str]:
    """For "a.b.c": "a", "a.b", "a.b.c"."""
    names = path.split(".", DEEPEST)[:DEEPEST] if path else []
    for length in range(1, len(names) + 1):
        yield ".".join(names[:length])
