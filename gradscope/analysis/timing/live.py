"""What a recording that goes on has shown so far, summed up from its newest rows."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson

from gradscope.trace.ragged import Array, Integers, Ragged
from gradscope.trace.schema import NONE, GraphTask, Meta, Node, Op, Phase, Place, Span, Step, String
from gradscope.trace.schema.tables import Finding, Saved, Tensor, Value
from gradscope.trace.table import Block

RECENT = 20
"""Number of the latest steps of which times and speed are shown."""
KNOWN = 1 << 18
"""Number of rows that are remembered of tables that others refer to: memory stays bounded."""
LATEST = 3
"""Number of findings that are shown."""


@dataclass(slots=True)
class LiveStep:
    """A step, as far as its rows were written."""

    id: int
    number: int
    begin: int
    end: int = NONE
    backwards: int = 0
    forward_ns: int = 0  # in operations
    backward_ns: int = 0
    optimizer_ns: int = 0
    saved_bytes: int = 0  # of tensors that were saved in it, each once
    saved: set[int] = field(default_factory=set)  # these tensors


class LiveRows:
    """The rows of a block that are needed, column by column."""

    def __init__(self, block: Block) -> None:
        self.block, self.data = block, block.data

    def has(self, name: str) -> bool:
        return name in self.data

    def array(self, name: str, otherwise: int = NONE) -> Array:
        found = self.data.get(name)
        if found is None or isinstance(found, Ragged):
            return np.full(self.block.rows, otherwise)
        return found

    def ints(self, name: str, otherwise: int = NONE) -> list[int]:
        return [int(each) for each in self.array(name, otherwise).tolist()]

    def firsts(self, name: str) -> list[int]:
        """The first value of each cell; NONE for an empty one."""
        found = self.data.get(name)
        if not isinstance(found, Ragged):
            return [NONE] * self.block.rows
        return [int(cell[0]) if len(cell) else NONE for cell in found]


@dataclass(slots=True)
class KnownRows:
    """Rows that others refer to; the oldest are forgotten."""

    values: dict[int, Any] = field(default_factory=dict)

    def add(self, rows: Iterable[tuple[int, Any]]) -> None:
        self.values.update(rows)
        if len(self.values) > 2 * KNOWN:
            self.values = dict([*self.values.items()][-KNOWN:])


class StepsSoFar:
    """The loss and the norm of gradients in the latest step in which they were recorded."""

    def __init__(self, step: Callable[[int], LiveStep | None]) -> None:
        self.loss: tuple[int, float] | None = None  # step, and the first root of its last backward
        self.gradient_norm: tuple[int, float] | None = None  # step, and the norm of all gradients
        self._step = step
        self._node_ops, self._numbers, self._acts = KnownRows(), KnownRows(), KnownRows()

    def backward(self, step: LiveStep, root: int) -> None:
        """A backward began at this node."""
        loss = self._numbers.values.get(self._node_ops.values.get(root, NONE))
        if loss is not None:
            self.loss = step.number, loss

    def nodes(self, rows: LiveRows) -> None:
        self._node_ops.add(zip(rows.ints("id"), rows.ints("op"), strict=True))

    def values(self, rows: LiveRows) -> None:
        chosen = (rows.array("place") == Place.OP_OUTPUT) & (rows.array("count", 0) == 1)
        means = rows.array("mean")[chosen].tolist()
        self._numbers.add(zip(rows.array("op")[chosen].tolist(), means, strict=True))

    def looks(self, rows: LiveRows) -> None:
        chosen = (rows.array("place") == Place.OP_OUTPUT) & (rows.array("count", 0) == 1)
        bits, wide = rows.array("mean", 0)[chosen], rows.array("wide", 0)[chosen]
        single = bits.astype(np.int32).view(np.float32)
        means = np.where(wide != 0, bits.view(np.float64), single).tolist()
        self._numbers.add(zip(rows.array("op")[chosen].tolist(), means, strict=True))

    def act(self, rows: LiveRows) -> None:
        self._acts.add(zip(rows.ints("id"), rows.ints("step"), strict=True))

    def norms(self, rows: LiveRows) -> None:
        norms = rows.data.get("grad")
        if not isinstance(norms, Ragged):
            return
        for id, cell in zip(rows.ints("id"), norms, strict=True):
            step = self._step(self._acts.values.get(id, NONE))
            known = cell[~np.isnan(cell)]
            if step is not None and len(known):
                self.gradient_norm = step.number, float(np.sqrt(np.square(known).sum()))


class LiveRun:
    """The latest steps of a recording, its facts and findings; memory does not grow with it."""

    def __init__(self) -> None:
        self.texts: dict[int, str] = {NONE: "", 0: ""}
        self.facts: dict[str, Any] = {}
        self.ended = 0  # number of steps that ended
        self.recent: deque[LiveStep] = deque(maxlen=RECENT)
        self.running: dict[int, LiveStep] = {}
        self.numbers = StepsSoFar(self.step)
        self.most_saved = 0
        self.saves = False  # whether it is known what is saved
        self.findings: deque[tuple[str, str]] = deque(maxlen=LATEST)
        self.found = 0
        self._tasks, self._spans = KnownRows(), KnownRows()
        self._sizes, self._contexts = KnownRows(), KnownRows()
        self._parameters: dict[int, int] = {}
        self._trains = False

    def add(self, blocks: Iterable[Block]) -> None:
        """The rows of one window."""
        by_table: dict[str, list[Block]] = {}
        for block in blocks:
            by_table.setdefault(f"{block.table}+" * block.amend or block.table, []).append(block)
        for table, read in self._readers().items():
            for block in by_table.get(table, ()):
                read(LiveRows(block))

    def _readers(self) -> Mapping[str, Any]:
        return {
            String.TABLE: self._texts, Meta.TABLE: self._meta, Step.TABLE: self._steps,
            "short.context": self._context, Op.TABLE: self._calls, "short.call": self._short_calls,
            Node.TABLE: self.numbers.nodes, Value.TABLE: self.numbers.values,
            "short.look": self.numbers.looks,
            Tensor.TABLE: self._tensors, Saved.TABLE: self._saved, "short.saved": self._saved,
            GraphTask.TABLE: self._backwards, f"{GraphTask.TABLE}+": self._backwards_end,
            Span.TABLE: self._optimizers, f"{Span.TABLE}+": self._optimizers_end,
            "act": self.numbers.act, "act.step": self.numbers.norms, Finding.TABLE: self._findings,
            f"{Step.TABLE}+": self._steps_end,
        }  # fmt: skip

    @property
    def latest(self) -> LiveStep | None:
        """The last step that ended."""
        return self.recent[-1] if self.recent else None

    def mean(self, name: str) -> float:
        """The mean of a value over the recent steps."""
        values = [getattr(step, name) for step in self.recent]
        return sum(values) / len(values) if values else 0.0

    @property
    def steps_per_second(self) -> float:
        """Speed of the recent steps; 0: not known."""
        if not self.recent:
            return 0.0
        took = self.recent[-1].end - self.recent[0].begin
        return len(self.recent) * 1e9 / took if took > 0 else 0.0

    def _texts(self, rows: LiveRows) -> None:
        self.texts |= zip(rows.ints("id"), map(str, rows.array("text").tolist()), strict=True)

    def _meta(self, rows: LiveRows) -> None:
        for key, value in zip(rows.ints("key"), rows.ints("value"), strict=True):
            try:
                self.facts[self.texts.get(key, "")] = orjson.loads(self.texts.get(value, ""))
            except orjson.JSONDecodeError:
                continue

    def _steps(self, rows: LiveRows) -> None:
        columns = (rows.ints(name) for name in ("id", "number", "begin", "end"))
        for id, number, begin, end in zip(*columns, strict=True):
            self.running[id] = LiveStep(id, number, begin)
            if end != NONE:
                self._ends(id, end)

    def _steps_end(self, rows: LiveRows) -> None:
        for id, end in zip(rows.ints("id"), rows.ints("end"), strict=True):
            if end != NONE:
                self._ends(id, end)

    def _ends(self, id: int, end: int) -> None:
        step = self.running.pop(id, None)
        if step is not None and (step.backwards or (not self._trains and step.forward_ns)):
            step.end = end
            self.ended += 1
            self.recent.append(step)

    def step(self, id: int) -> LiveStep | None:
        """A step that runs, or one of the recent ones: rows of a step may follow its end."""
        return self.running.get(id) or next((each for each in self.recent if each.id == id), None)

    # Times -----------------------------------------------------------------------------------

    def _context(self, rows: LiveRows) -> None:
        columns = (rows.ints(name, 0) for name in ("id", "task", "step", "phase"))
        self._contexts.add((id, about) for id, *about in zip(*columns, strict=True))

    def _short_calls(self, rows: LiveRows) -> None:
        known = [self._contexts.values.get(id, (NONE, NONE, 0)) for id in rows.ints("context")]
        task, step, phase = np.array(known, np.int64).reshape(-1, 3).T
        self._add_calls(rows, task, step, phase)

    def _calls(self, rows: LiveRows) -> None:
        self._add_calls(rows, *(rows.array(name, fill) for name, fill in
                                (("task", NONE), ("step", NONE), ("phase", 0))))  # fmt: skip

    def _add_calls(self, rows: LiveRows, task: Integers, step: Integers, phase: Integers) -> None:
        begin, end = rows.array("begin"), rows.array("end")
        order = np.argsort(begin, kind="stable")
        begin, end, task, step, phase = (c[order] for c in (begin, end, task, step, phase))
        until = np.maximum.accumulate(end) if len(end) else end
        outer = np.append(True, begin[1:] >= until[:-1])
        forward = outer & (end != NONE) & (task == NONE)
        forward &= (phase != Phase.OPTIMIZER) & (phase != Phase.BACKWARD)
        for id in np.unique(step[forward]).tolist():
            found = self.step(id)
            if found is not None:
                own = forward & (step == id)
                found.forward_ns += int((end[own] - begin[own]).sum())

    def _backwards(self, rows: LiveRows) -> None:
        columns = (rows.ints(name) for name in ("id", "step", "begin", "end", "parent"))
        roots = rows.firsts("roots")
        for root, (id, step, begin, end, parent) in zip(roots, zip(*columns, strict=True),
                                                        strict=True):  # fmt: skip
            found = self.step(step)
            if parent == NONE and found is not None:
                self._trains = True
                found.backwards += 1
                self.numbers.backward(found, root)
                self._tasks.add([(id, (found, begin))])
                if end != NONE:
                    found.backward_ns += max(end - begin, 0)

    def _backwards_end(self, rows: LiveRows) -> None:
        for id, end in zip(rows.ints("id"), rows.ints("end"), strict=True):
            step, begin = self._tasks.values.get(id, (None, 0))
            if step is not None and end != NONE:
                step.backward_ns += max(end - begin, 0)
                del self._tasks.values[id]

    def _optimizers(self, rows: LiveRows) -> None:
        columns = (rows.ints(name) for name in ("id", "phase", "step", "begin", "end"))
        for id, phase, step, begin, end in zip(*columns, strict=True):
            found = self.step(step)
            if phase == Phase.OPTIMIZER and found is not None:
                if end != NONE:
                    found.optimizer_ns += max(end - begin, 0)
                else:
                    self._spans.add([(id, (found, begin))])

    def _optimizers_end(self, rows: LiveRows) -> None:
        for id, end in zip(rows.ints("id"), rows.ints("end"), strict=True):
            step, begin = self._spans.values.pop(id, (None, 0))
            if step is not None and end != NONE:
                step.optimizer_ns += max(end - begin, 0)

    # Tensors and findings --------------------------------------------------------------------

    def _tensors(self, rows: LiveRows) -> None:
        sizes = [*zip(rows.ints("id"), rows.ints("bytes", 0), strict=True)]
        parameter = rows.array("leaf", 0).astype(bool) & rows.array("requires_grad", 0).astype(bool)
        self._parameters |= (each for each, keep in zip(sizes, parameter, strict=True) if keep)
        self._sizes.add(sizes)

    def _saved(self, rows: LiveRows) -> None:
        self.saves = True
        steps = sorted([*self.recent, *self.running.values()], key=lambda step: step.begin)
        begins = [step.begin for step in steps]
        for tensor, t in zip(rows.ints("tensor"), rows.ints("t"), strict=True):
            place = bisect_right(begins, t) - 1
            if place < 0:
                continue
            step = steps[place]
            if tensor not in step.saved:
                step.saved.add(tensor)
                size = self._sizes.values.get(tensor, self._parameters.get(tensor, 0))
                step.saved_bytes += size
                self.most_saved = max(self.most_saved, step.saved_bytes)

    def _findings(self, rows: LiveRows) -> None:
        for kind, message in zip(rows.ints("kind"), rows.ints("message"), strict=True):
            self.found += 1
            self.findings.append((self.texts.get(kind, ""), self.texts.get(message, "")))
