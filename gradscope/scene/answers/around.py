"""Other rows of a trace that mention a row, in words: edges, saved values, in-place writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

from gradscope.analysis.identity.sites import Site, at, site_of
from gradscope.analysis.program.mentions import Mention, mentions
from gradscope.analysis.rules.trained.forwards import cuts_that_go_on
from gradscope.scene.answers.answer import Topic
from gradscope.scene.cells import Cells
from gradscope.scene.readable import byte_count, count, duration, number, plural
from gradscope.trace.schema import (
    NONE,
    Act,
    CutAct,
    Edge,
    GraphTask,
    Module,
    Node,
    Op,
    Place,
    Saved,
    Tensor,
    Value,
    Version,
)
from gradscope.trace.schema.declare import Row
from gradscope.trace.trace import Trace

WRITES = "in-place writes to it"

TITLES = {
    ("edge", "node"): "sends gradients to",
    ("edge", "next"): "receives gradients from",
    ("op", "node"): "forward call that created it",
    ("node", "op"): "node it created",
    ("saved", "node"): "values it saves",
    ("saved", "tensor"): "nodes that saved it",
    ("op", "outputs"): "calls that returned it",
    ("op", "inputs"): "calls that used it as an input",
    ("node", "inputs"): "nodes that receive its gradient",
    ("version", "tensor"): WRITES,
    ("version", "storage"): "in-place writes to its storage",
    ("version", "op"): "its in-place writes",
    ("act", "tensors"): "what the program did to it",
    ("module", "parameters"): "module that owns it",
    ("tensor", "storage"): "tensors that share its storage",
    ("tensor", "op"): "tensors it created",
    ("value", "tensor"): "recorded values",
    ("value", "node"): "recorded values",
    ("value", "op"): "recorded values",
    ("graph_task", "roots"): "backwards that started at it",
    ("shard", "tensor"): "part of it on this rank",
    ("gathered", "parameters"): "leaves that FSDP gathers it into",
    ("gathered", "leaf"): "parameters that FSDP gathers into it",
}
"""Titles by the table and column that name a row, the most important first; others follow."""

PLACES = {
    Place.OP_OUTPUT: "result",
    Place.NODE_INPUT: "incoming gradient",
    Place.NODE_OUTPUT: "outgoing gradient",
    Place.BUFFER: "sum of gradients",
    Place.HOOK: "value after a hook",
    Place.GRAD: ".grad",
    Place.SEED: "initial gradient",
    Place.LEAF: "value when first seen",
}


class Surroundings:
    """Describes the rows that mention a row."""

    def __init__(self, trace: Trace, cells: Cells) -> None:
        self._trace = trace
        self._cells = cells
        self._words: dict[type[Row], Callable[[Any, str], str]] = {
            Edge: self._edge,
            Op: self._op,
            Node: self._node,
            Saved: self._saved,
            Version: self._version,
            Act: self._act,
            Module: self._module,
            Tensor: lambda row, _: cells.tensor(row.id),
            Value: self._value,
            GraphTask: self._task,
        }

    def of_storage(self, id: int, tensor: Tensor) -> Iterator[Topic]:
        """Other rows that mention a tensor's storage."""
        for mention in mentions(self._trace, "storage", id):
            rows = (row for row in mention.rows if tensor.id != getattr(row, "tensor", NONE))
            title = TITLES.get((mention.table, mention.column), mention.table)
            yield self._section(replace(mention, rows=tuple(rows)), title, tensor)

    def sections(self, table: str, id: int) -> Iterator[Topic]:
        """A section for each table and column that names the row; equal lines are merged."""
        found = [*mentions(self._trace, table, id)]
        order = list(TITLES)
        known = [m for m in found if (m.table, m.column) in TITLES]
        for mention in sorted(known, key=lambda m: order.index((m.table, m.column))):
            yield self._section(mention, TITLES[mention.table, mention.column])
        for mention in found:
            if mention not in known:
                verb = "includes" if mention.many else "is"
                title = f"{mention.table} rows whose {mention.column.replace('_', ' ')} {verb} "
                yield self._section(mention, f"{title}{table} {id}")

    def _section(self, mention: Mention, title: str, but: Row | None = None) -> Topic:
        rows = [row for row in mention.rows if row != but and not self._is_a_log(row)]
        lines = (self._words.get(type(row), self._generic)(row, mention.column) for row in rows)
        return Topic(title, tuple(_together(lines)))

    def _is_a_log(self, row: Row) -> bool:
        """Whether a row says that a value was read for a log."""
        return isinstance(row, Act) and row.kind == CutAct.KIND and row.id not in self._cuts

    @cached_property
    def _cuts(self) -> frozenset[int]:
        return frozenset(each.id for each in self._trace.once(cuts_that_go_on))

    def _generic(self, row: Row, known: str) -> str:
        facts = dict(self._cells.words(row, leave_out=(known,)))
        return ", ".join(f"{name.replace('_', ' ')} {text}" for name, text in facts.items())

    def _site(self, stack: int) -> Site:
        return site_of(self._trace, stack)

    def _named(self, node: int) -> str:
        nodes = self._trace.table(Node)
        made = self._site(nodes.row(node).stack) if nodes.has(node) else Site()
        return self._cells.node(node) + at(made)

    def _edge(self, row: Edge, known: str) -> str:
        if known == "next":
            return f"{self._named(row.node)}, output {row.index}"
        if row.next == NONE:
            return f"output {row.index}: no edge, this gradient is not needed"
        return f"output {row.index}: {self._named(row.next)}"

    def _op(self, row: Op, known: str) -> str:
        site = self._site(row.stack)
        text = f": {site.text}" if site.text else ""
        if known in ("inputs", "outputs"):
            return f"{row.name.partition('.')[0]}{at(site)}{text}"
        details = (
            [f"inputs: {', '.join(map(self._cells.tensor, row.inputs))}"] if row.inputs else []
        )
        details += [f"took {duration(row.end - row.begin)}"] if row.end != NONE else []
        told = f"; {'; '.join(details)}" if details else ""
        return f"{self._cells.op(row.id)}{at(site)}{text}{told}"

    def _node(self, row: Node, _: str) -> str:
        return self._named(row.id)

    def _saved(self, row: Saved, known: str) -> str:
        ended = "still held"
        if row.task != NONE:
            ended = f"released by {self._cells.backward(row.task)}"
        elif row.released != NONE:
            ended = "released"
        if known == "tensor":
            return f"{self._named(row.node)}, as {row.slot}; {ended}"
        of = f" {self._cells.tensor(row.tensor)}" if row.tensor != NONE else ""
        packed = ", packed by a hook" if row.hooked else ""
        return f"{row.slot}:{of}, {byte_count(row.bytes)}, version {row.version}{packed}; {ended}"

    def _version(self, row: Version, known: str) -> str:
        ops = self._trace.table(Op)
        by = ops.row(row.op).name.partition(".")[0] if ops.has(row.op) else "an unknown operation"
        through = "" if known == "tensor" else f" through {self._cells.tensor(row.tensor)}"
        site = self._site(row.stack)
        text = f": {site.text}" if site.text else ""
        return f"by {by}{through}{at(site)}{text}"

    def _act(self, row: Act, _: str) -> str:
        site = self._site(row.stack)
        text = f": {site.text}" if site.text else ""
        return f"{row.kind.replace('_', ' ')}{at(site)}{text}"

    def _module(self, row: Module, _: str) -> str:
        return f"{row.path or '(root)'} · {row.type}"

    def _value(self, row: Value, _: str) -> str:
        place = PLACES.get(row.place, f"place {row.place}")  # type: ignore[call-overload]
        where = f" in {self._cells.backward(row.task)}" if row.task != NONE else ""
        named = (("NaN", row.nan), ("+Inf", row.posinf), ("−Inf", row.neginf), ("0", row.zero))
        counts = ", ".join(f"{count(many)} × {name}" for name, many in named if many)
        spread = f"{number(row.min)} to {number(row.max)}, norm {number(row.norm)}"
        data = f", data {row.data}" if row.data else ""
        return (
            f"{place}{where}: {plural(row.count, 'element')}, {spread}"
            + f", {counts}" * bool(counts)
            + data
        )

    def _task(self, row: GraphTask, _: str) -> str:
        return f"{self._cells.backward(row.id)}{at(self._site(row.stack))}"


def _together(lines: Iterable[str]) -> Iterator[str]:
    """Each line once, preceded by how often it occurs."""
    for text, times in Counter(lines).items():
        yield f"{count(times)} × {text}" if times > 1 else text
