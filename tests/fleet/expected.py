"""What a fleet must hold of a trace: made row by row, from the rows of the trace alone."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from gradscope.analysis.identity.sites import own_site
from gradscope.analysis.identity.steps import steps
from gradscope.analysis.program.modules import module_names
from gradscope.trace.schema import (
    NONE,
    Accumulation,
    GraphTask,
    HookKind,
    Node,
    Op,
    Place,
    Saved,
    Step,
    Tensor,
    Value,
)
from gradscope.trace.trace import Trace

MOST = (1 << 63) - 1
Rows = list[dict[str, Any]]
Line = tuple[str, str]


class Expected:
    """The tables `value`, `event`, `node`, `op` and `saved` of one trace.

    `line` of a row is its file and text, or None.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.modules = module_names(trace)
        contents = {row.id for row in steps(trace)}
        every = sorted(trace.rows(Step), key=lambda row: (row.begin, row.id))
        if every and every[-1].id not in contents:
            every.pop()  # what follows the last step
        self.numbers = {row.id: row.number for row in every}
        self.by_id = {
            kind: {row.id: row for row in trace.rows(kind)} for kind in (Node, Op, Tensor)
        }
        self.tasks = {row.id: row for row in trace.rows(GraphTask)}

    def _keyed(self, found: Iterable[tuple[int, tuple[int, ...], dict[str, Any]]]) -> Rows:
        """Rows with their `step` and `k`: given are the step, the keys of order, and the cells."""
        by_step: dict[int | None, list[Any]] = defaultdict(list)
        for at, (step, order, cells) in enumerate(found):
            by_step[self.numbers.get(step)].append((order, at, cells))
        return [
            {"step": step, "k": k, **cells}
            for step, some in by_step.items()
            for k, (_, _, cells) in enumerate(sorted(some, key=lambda each: each[:2]))
        ]

    def at(self, t: int) -> int | None:
        """A time in nanoseconds since 1970."""
        base = self.trace.meta.get("clock_base", 0)
        return None if t == NONE or not -base <= t <= MOST - base else t + base

    def line(self, stack: int) -> Line | None:
        """The file and text of a line; None: not recorded."""
        site = own_site(self.trace, stack)
        return (site.place.rpartition(":")[0], site.text) if site.place else None

    def ops(self) -> Rows:
        return self._keyed(
            (
                row.step,
                (row.begin, row.id),
                {
                    "id": row.id,
                    "name": row.name or None,
                    "begin_at": self.at(row.begin),
                    "end_at": self.at(row.end),
                    "node": _id(row.node),
                    "shape": self._shape(row.outputs),
                    "module": self.modules.get(row.module) or None,
                    "line": self.line(row.stack),
                    "thread": _id(row.thread),
                    "task": _id(row.task),
                },
            )
            for row in self.trace.rows(Op)
        )

    def _shape(self, outputs: tuple[int, ...]) -> str | None:
        tensor = self.by_id[Tensor].get(outputs[0]) if outputs else None
        return None if tensor is None else str(list(tensor.shape))

    def nodes(self) -> Rows:
        return self._keyed(
            (
                row.step,
                (row.t, row.id),
                {
                    "id": row.id,
                    "name": row.name or None,
                    "sequence_nr": _id(row.sequence_nr),
                    "op": _id(row.op),
                    "task": _id(row.task),
                    "module": self.modules.get(row.module) or None,
                    "line": self.line(row.stack),
                    "thread": _id(row.thread),
                    "happened_at": self.at(row.t),
                },
            )
            for row in self.trace.rows(Node)
        )

    def saved(self) -> Rows:
        found = []
        for row in self.trace.rows(Saved):
            node, tensor = self.by_id[Node].get(row.node), self.by_id[Tensor].get(row.tensor)
            cells = {
                "id": row.id,
                "node": _id(row.node),
                "name": (node.name or None) if node else None,
                "slot": row.slot or None,
                "tensor": _id(row.tensor),
                "storage": _id(tensor.storage) if tensor else None,
                "leaf": tensor.leaf if tensor else None,
                "bytes": row.bytes,
                "hooked": row.hooked,
                "saved_at": self.at(row.t),
                "released_at": self.at(row.released),
                "module": (self.modules.get(node.module) or None) if node else None,
                "line": self.line(node.stack) if node else None,
            }
            found.append((node.step if node else NONE, (row.t, row.id), cells))
        return self._keyed(found)

    def values(self) -> Rows:
        found = []
        for row in self.trace.rows(Value):
            of = self.by_id[Op].get(row.op) if row.op != NONE else None
            node = self.by_id[Node].get(row.node)

            def either(name: str, of: Any = of, node: Any = node) -> Any:
                """A cell of the operation, or else of the node."""
                cells = (getattr(each, name) for each in (of, node) if each is not None)
                empty = {"name": "", "module": NONE, "stack": NONE}[name]
                return next((cell for cell in cells if cell != empty), empty)

            step = row.step
            if step == NONE and row.task in self.tasks:
                step = self.tasks[row.task].step
            cells = {
                "seq": _id(row.seq),
                "place": _name(Place, row.place),
                "name": either("name") or None,
                "index": _id(row.index),
                "op": _id(row.op),
                "node": _id(row.node),
                "module": self.modules.get(either("module")) or None,
                "line": self.line(either("stack")),
                "happened_at": self.at(row.t),
                "bad": _wrapped(row.nan + row.posinf + row.neginf),
                "first_bad": _id(row.bad[0]) if row.bad else None,
            }
            cells |= {name: getattr(row, name) for name in ("count", "nan", "posinf", "neginf")}
            for name in ("min", "max", "mean", "rms", "norm"):
                cells[name] = None if math.isnan(getattr(row, name)) else getattr(row, name)
            found.append((step, (row.t,), cells))
        return self._keyed(found)

    def events(self) -> Rows:
        found = []
        for row in self.trace.events():
            step = self.tasks[row.task].step if row.task in self.tasks else NONE
            cells = {"seq": row.seq, "kind": row.KIND, "happened_at": self.at(row.t)}
            for name in ("thread", "task", "node", "source", "tensor", "saved"):
                cells[name] = _id(getattr(row, name, NONE))
            for name in ("index", "input_nr", "count", "remaining", "queue", "length", "depth"):
                cells[name] = getattr(row, name, None)
            for name in ("failed", "undefined", "in_place", "replaced", "pool"):
                cells[name] = getattr(row, name, None)
            for name in ("name", "type", "message"):
                cells[name] = getattr(row, name, None) or None
            cells["hook"] = _name(HookKind, getattr(row, "hook", NONE))
            cells["how"] = _name(Accumulation, getattr(row, "how", NONE))
            cells["module"] = self.modules.get(getattr(row, "module", NONE)) or None
            cells["line"] = self.line(getattr(row, "stack", NONE))
            found.append((step, (row.seq,), cells))
        return self._keyed(found)


TABLES: dict[str, Callable[[Expected], Rows]] = {
    "op": Expected.ops,
    "node": Expected.nodes,
    "saved": Expected.saved,
    "value": Expected.values,
    "event": Expected.events,
}


def _id(value: int) -> int | None:
    return None if value == NONE else value


def _name(kind: Any, value: int) -> str | None:
    return kind(value).name.lower() if value in list(kind) else None


def _wrapped(number: int) -> int:
    """As a sum of 64 bits."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
