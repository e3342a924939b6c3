"""Cells of a trace's tables as text: names instead of ids, units for times and sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any

from gradscope.analysis.identity.backwards import backward_numbers
from gradscope.analysis.identity.leaves import leaf
from gradscope.analysis.identity.names import node_names
from gradscope.analysis.identity.sharding import Sharding
from gradscope.analysis.identity.sites import site_of
from gradscope.analysis.identity.steps import step_numbers
from gradscope.analysis.lookups import member
from gradscope.analysis.program.arguments import arguments_of, in_words
from gradscope.analysis.ranks.whose import RankOf
from gradscope.scene.readable import ACCUMULATED, byte_count, duration, number, shape
from gradscope.trace.schema import (
    NONE,
    Accumulation,
    Device,
    GraphTask,
    HookKind,
    Module,
    Op,
    Phase,
    Place,
    Saved,
    Span,
    Step,
    Tensor,
    Thread,
    Why,
)
from gradscope.trace.schema.declare import Column, Row, columns
from gradscope.trace.trace import Trace

KINDS: dict[str, type[IntEnum]] = {
    "hook": HookKind,
    "how": Accumulation,
    "phase": Phase,
    "place": Place,
    "why": Why,
}
SIZES = ("shape", "local", "strides", "bad", "histogram")


class Cells:
    """Formats cells of one trace as text."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._tensors: dict[int, str] = {}
        self._nodes: dict[int, str] = {}
        self._referred: dict[str, Callable[[int], str]] = {
            "graph_task": self.backward,
            "module": self._module,
            "node": self.node,
            "op": self.op,
            "saved": self._saved,
            "span": self._span,
            "stack": self._stack,
            "step": self._step,
            "tensor": self.tensor,
            "thread": self.thread,
            "device": self._device,
        }

    def words(self, row: Row, *, leave_out: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
        """The columns of a row that are filled in, each as text."""
        for column in columns(type(row)):
            value = getattr(row, column.name)
            if column.name == "next" and value == NONE:
                yield column.name, "no edge: this gradient is not needed"
            elif column.name not in leave_out and not _says_nothing(column, value):
                yield column.name, self._cell(column, value)

    def _cell(self, column: Column, value: Any) -> str:
        if column.ref and column.many:
            return ", ".join(self._refer(column.ref, each) for each in value)
        if column.ref:
            return self._refer(column.ref, value)
        if column.time:
            return f"at {duration(value)}"
        if column.name in KINDS:
            return kind_in_words(KINDS[column.name], value)
        if column.name in SIZES:
            return shape(value) if value or column.name == "shape" else ""
        if column.name == "bytes":
            return byte_count(value)
        if isinstance(value, bool):
            return "yes" if value else "no"
        if column.name == "arguments":
            return in_words(arguments_of(value)) or str(value)
        if column.many and column.interned:
            return ", ".join(map(str, value))
        return number(value) if isinstance(value, float) else str(value)

    def _refer(self, table: str, id: int) -> str:
        if id == NONE:
            return "none"
        return self._referred.get(table, str)(id)

    def _step(self, id: int) -> str:
        rank = self.trace.once(RankOf).one(Step.TABLE, id)
        of = "" if rank == NONE else f" of rank {rank}"
        return f"{self.trace.once(step_numbers).get(id, id)}{of}"

    def node(self, id: int) -> str:
        if id not in self._nodes:
            self._nodes[id] = f"{self.trace.once(node_names).title(id)} (node {id})"
        return self._nodes[id]

    def tensor(self, id: int) -> str:
        if id not in self._tensors:
            self._tensors[id] = self._tensor(id)
        return self._tensors[id]

    def _tensor(self, id: int) -> str:
        if not self.trace.table(Tensor).has(id):
            return f"tensor {id}"
        row = self.trace.table(Tensor).row(id)
        named = leaf(self.trace, id) if row.leaf else None
        name = named.name if named else row.name
        kind = f"{shape(row.shape)} {row.dtype}".strip()
        kind = self.trace.once(Sharding).in_words(id, kind)
        parts = (name, kind, f"(tensor {id})")
        return " ".join(part for part in parts if part)

    def op(self, id: int) -> str:
        ops = self.trace.table(Op)
        return f"{ops.row(id).name} (op {id})" if ops.has(id) else f"op {id}"

    def backward(self, id: int) -> str:
        number_of = self.trace.once(backward_numbers).get(id)
        rank = self.trace.once(RankOf).words(GraphTask.TABLE, id)
        return f"graph task {id}" if number_of is None else f"{rank}backward {number_of}"

    def _module(self, id: int) -> str:
        modules = self.trace.table(Module)
        if not modules.has(id):
            return f"module {id}"
        row = modules.row(id)
        return f"{row.path or '(root)'} · {row.type}"

    def thread(self, id: int) -> str:
        threads = self.trace.table(Thread)
        return (threads.row(id).name if threads.has(id) else "") or f"thread {id}"

    def _device(self, id: int) -> str:
        devices = self.trace.table(Device)
        return devices.row(id).name if devices.has(id) else f"device {id}"

    def _saved(self, id: int) -> str:
        saved = self.trace.table(Saved)
        return f"{saved.row(id).slot} (saved {id})" if saved.has(id) else f"saved {id}"

    def _span(self, id: int) -> str:
        spans = self.trace.table(Span)
        return spans.row(id).name if spans.has(id) else f"span {id}"

    def _stack(self, id: int) -> str:
        found = site_of(self.trace, id)
        return f"{found.place}: {found.text}" if found.text else found.place or f"stack {id}"


def kind_in_words(kinds: type[IntEnum], value: int) -> str:
    """As in "post accumulate"; the number of a kind this version does not know."""
    known = member(kinds, value)
    if isinstance(known, Accumulation):
        return ACCUMULATED[known]
    return f"kind {value}" if known is None else known.name.lower().replace("_", " ")


def _says_nothing(column: Column, value: Any) -> bool:
    """Whether the cell is empty and that carries no information."""
    if isinstance(value, float):
        return math.isnan(value)
    if column.ref or column.time or column.name == "seq":
        return value in (NONE, ())
    if column.name in KINDS or column.name == "shape":
        return False
    return value is False or value in ("", ())
