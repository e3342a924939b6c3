"""What happened in a run, in a form that any other run of the program has, too.

Ids, times and addresses are left out. Calls are numbered in each thread; a value belongs to a call,
a node or a leaf.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gradscope.analysis.identity.sites import Site, own_site
from gradscope.analysis.program.acts import Acts, Done, Origins
from gradscope.trace.schema import (
    NONE,
    ActFacts,
    GraphTask,
    Module,
    Node,
    Op,
    ParameterSummary,
    Place,
    Step,
    StepAct,
    StepSummary,
    Tensor,
    Thread,
    Value,
)
from gradscope.trace.trace import Trace

COUNTS = ("count", "nan", "posinf", "neginf", "zero")
MEASURES = ("min", "max", "mean", "rms", "norm")
ACTS_COMPARED: Mapping[str, tuple[str, ...]] = {
    "seed": ("seed", "whose"),
    "split": ("many", "digest"),
    "batch": ("samples", "many"),
    "drew": ("by", "many", "digest"),
    "step": ("lr", "none", "many"),
    "schedule_step": ("lr",),
    "clip": ("by", "max", "norm"),
    "scaled_step": ("skipped",),
}
"""What the program did that is compared, and with what."""

PYTORCH = "pytorch"

Key = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A forward call, or something else that the program did."""

    t: int
    what: Key  # the same in each run
    name: str  # "mul", "seed"
    facts: tuple[tuple[str, Any], ...]  # of an act
    op: int  # id of the call; NONE: an act
    shapes: str  # of what the call returned
    module: str  # "2 (Dropout)"
    site: Site
    step: int


@dataclass(frozen=True, slots=True)
class MeasuredValue:
    """A value: its statistics, or the hash of its bits."""

    t: int
    content: tuple[int, ...]  # equal if and only if the statistics are the same bits
    facts: tuple[tuple[str, Any], ...]
    words: str  # "output 0 of mul"
    op: int  # id of the call that it is an output of; NONE: not an output
    module: str
    site: Site
    step: int


class HappenedCalls:
    """The calls and acts of a trace."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.numbers: dict[int, tuple[str, int]] = {}
        """Of each recorded call: its thread and number."""

    @cached_property
    def steps(self) -> int:
        """The number of steps that ended with a step of an optimizer, or with a backward."""
        return len(self.trace.table(StepSummary))

    @cached_property
    def recorded_steps(self) -> int:
        """The number of these steps whose calls were recorded."""
        steps = {row.step for row in self.trace.rows(StepSummary)}
        return len(steps.intersection(self.trace.table(Op)["step"].tolist()))

    @cached_property
    def calls(self) -> Mapping[str, list[Call]]:
        """Calls and acts of each thread, by time."""
        found: dict[str, list[Call]] = {}
        names = self._thread_names
        every = [(act.thread, self._act(act)) for act in self._acts]
        every += [(op.thread, self._call(op)) for op in self._ops]
        for thread, call in sorted(every, key=lambda each: each[1].t):
            of_thread = found.setdefault(names.get(thread, ""), [])
            if call.op != NONE:
                self.numbers[call.op] = names.get(thread, ""), len(of_thread)
            of_thread.append(call)
        return found

    @cached_property
    def _thread_names(self) -> Mapping[int, str]:
        """Names of threads that are the same in each run: of equal names, the first is number 1."""
        seen, found = Counter[str](), dict[int, str]()
        for row in sorted(self.trace.rows(Thread), key=lambda row: row.id):
            name = re.sub(r"^Thread-\d+", "Thread", row.name)
            seen[name] += 1
            found[row.id] = f"{name} {seen[name]}"
        return found

    @property
    def _ops(self) -> Iterator[Op]:
        """The calls that each recording of this program has.

        On PyTorch calls without a node are recorded only if something else shows them.
        """
        every = self.trace.meta.get("producer") != PYTORCH
        return (op for op in self.trace.rows(Op) if every or op.node != NONE)

    @property
    def _acts(self) -> Iterator[Done[ActFacts]]:
        return (act for act in self.trace.once(Acts).all if act.kind in ACTS_COMPARED)

    def _act(self, act: Done[ActFacts]) -> Call:
        facts = tuple((name, getattr(act.facts, name)) for name in ACTS_COMPARED[act.kind])
        site = self.trace.once(Acts).site(act)
        what = "act", act.kind, site.place
        return Call(act.t, what, act.kind, facts, NONE, "", "", site, self._step(act.step))

    def _call(self, op: Op) -> Call:
        site, module = own_site(self.trace, op.stack), self._module(op.module)
        shapes = tuple(self._layout(tensor) for tensor in op.outputs)
        what = "call", op.name, module, site.place, shapes
        said = " ".join(str(list(shape[0])) for shape in shapes if shape)
        return Call(op.begin, what, op.name, (), op.id, said, module, site, self._step(op.step))

    def _layout(self, tensor: int) -> tuple[()] | tuple[tuple[int, ...], str]:
        table = self.trace.table(Tensor)
        if not table.has(tensor):
            return ()
        row = table.row(tensor)
        return row.shape, row.dtype

    def _module(self, module: int) -> str:
        table = self.trace.table(Module)
        if not table.has(module):
            return ""
        row = table.row(module)
        return f"{row.path} ({row.type})" if row.path else row.type

    def _step(self, step: int) -> int:
        table = self.trace.table(Step)
        return int(table["number"][table.index(step)]) if table.has(step) else NONE


class Happened(HappenedCalls):
    """The calls, values and parameters of a trace."""

    @cached_property
    def values(self) -> Mapping[Key, MeasuredValue]:
        """Values by what they belong to, with the parameters after each step."""
        _ = self.calls  # which numbers them
        found: dict[Key, MeasuredValue] = {}
        seen = Counter[Key]()
        rows = self.trace.table(Value)
        whole = (
            np.stack(
                [np.asarray(rows[name], np.int64) for name in COUNTS]
                + [np.asarray(rows[name], np.float64).view(np.int64) for name in MEASURES],
                axis=1,
            ).tolist()
            if len(rows)
            else []
        )
        for row, content in zip(rows.rows(), whole, strict=True):
            if row.op != NONE and row.op not in self.numbers:
                continue  # of a call that another recording may not have
            key, words, stack, module = self._about(row)
            seen[key] += 1
            op = row.op if row.place == Place.OP_OUTPUT else NONE
            facts = tuple((name, getattr(row, name)) for name in (*COUNTS, *MEASURES))
            found[*key, seen[key]] = MeasuredValue(
                self._time(row), tuple(content), facts, words, op,
                module, self._site(row, stack), self._step(row.step),
            )  # fmt: skip
        return {**found, **self._parameters(), **self._random_states()}

    def _random_states(self) -> dict[Key, MeasuredValue]:
        """The state of the engine's random generator after each step of an optimizer."""
        acts = self.trace.once(Acts)
        return {
            ("random", place): MeasuredValue(
                act.t, (act.facts.random,), (), "the state of the engine's random generator", NONE,
                "", acts.site(act), self._step(act.step),
            )
            for place, act in enumerate(acts.of(StepAct)) if act.facts.random != NONE
        }  # fmt: skip

    def _time(self, row: Value) -> int:
        """That of its call, or of the call it is passed to: causes come before what follows."""
        if row.place == Place.OP_OUTPUT and row.op in self.numbers:
            table = self.trace.table(Op)
            return int(table["begin"][table.index(row.op)])
        if row.place == Place.LEAF and row.tensor in self._passed:
            times = self._passed[row.tensor]
            began = times[max(bisect_right(times, row.t) - 1, 0)]
            backwards = bisect_right(self._backwards, row.t) - bisect_right(self._backwards, began)
            return row.t if backwards > 0 else began - 1
        return row.t

    @cached_property
    def _passed(self) -> Mapping[int, list[int]]:
        """When each tensor was passed to calls."""
        found: dict[int, list[int]] = {}
        for op in sorted(self.trace.rows(Op), key=lambda op: op.begin):
            for tensor in op.inputs:
                found.setdefault(tensor, []).append(op.begin)
        return found

    @cached_property
    def _backwards(self) -> list[int]:
        """When backwards began: a leaf measured after one was changed since its last call."""
        return sorted(self.trace.table(GraphTask)["begin"].tolist())

    def _about(self, row: Value) -> tuple[Key, str, int, str]:
        """What a value belongs to: its key, words, the line, and the module."""
        place, key = Place(row.place), Key()
        if row.op in self.numbers:
            op = self.trace.table(Op).row(row.op)
            key = "op", *self.numbers[row.op], int(place), row.index
            return key, f"output {row.index} of {op.name}", op.stack, self._module(op.module)
        if row.node != NONE and self.trace.table(Node).has(row.node):
            node = self.trace.table(Node).row(row.node)
            key = "node", *self._node(node), self._task(row.task), int(place), row.index
            what = WORDS.get(place, "value")
            return (
                key,
                f"{what} {row.index} of {self._named(node)}",
                node.stack,
                self._module(node.module),
            )
        name = self._leaf(row.tensor)
        key = "leaf", name, int(place), self._step(row.step)
        return key, f"the value of {name}", NONE, ""

    def _site(self, row: Value, stack: int) -> Site:
        """The line of a call or node; of a leaf, the line that created it from data."""
        origin = self.trace.once(Origins).of(row.tensor) if stack == NONE else None
        return own_site(self.trace, stack) if origin is None else origin.site

    def _node(self, node: Node) -> Key:
        if node.op != NONE and node.op in self.numbers:
            return node.name, *self.numbers[node.op]
        return self._others[node.id]

    @cached_property
    def _others(self) -> Mapping[int, Key]:
        """Of each node that no call created: its name, the leaf, and its number among equals."""
        seen, found = Counter[Key](), dict[int, Key]()
        for node in sorted(self.trace.rows(Node), key=lambda row: row.id):
            if node.op == NONE or node.op not in self.numbers:
                leaf = self._leaf(node.inputs[0]) if node.inputs else ""
                seen[node.name, leaf] += 1
                found[node.id] = node.name, leaf, seen[node.name, leaf]
        return found

    def _named(self, node: Node) -> str:
        if node.name == "AccumulateGrad" and node.inputs:
            return f"{node.name} of {self._leaf(node.inputs[0])}"
        return node.name

    def _task(self, task: int) -> Key:
        return self._tasks.get(task, ())

    @cached_property
    def _tasks(self) -> Mapping[int, Key]:
        """Of each backward: its thread, and its number in it."""
        seen, found = Counter[str](), dict[int, Key]()
        for row in self.trace.rows(GraphTask):
            thread = self._thread_names.get(row.thread, "")
            seen[thread] += 1
            found[row.id] = thread, seen[thread]
        return found

    def _leaf(self, tensor: int) -> str:
        """The name of a leaf, or its shape."""
        table = self.trace.table(Tensor)
        if not table.has(tensor):
            return "a tensor"
        row = table.row(tensor)
        return row.name or f"a tensor {row.dtype} {list(row.shape)}"

    def _parameters(self) -> dict[Key, MeasuredValue]:
        """The parameters after each step that was measured."""
        ends = {row.id: (row.number, row.end) for row in self.trace.rows(Step)}
        found: dict[Key, MeasuredValue] = {}
        seen = Counter[Key]()
        for row in self.trace.rows(ParameterSummary):
            number, end = ends.get(row.step, (NONE, NONE))
            key: Key = "parameter", number, self._leaf(row.tensor)
            seen[key] += 1
            sizes = np.array([row.weight, row.gradient]).view(np.int64).tolist()
            found[*key, seen[key]] = MeasuredValue(
                end, (row.bits, *sizes),
                (("norm", row.weight), ("norm of its gradient", row.gradient)),
                f"{self._leaf(row.tensor)} after step {number}", NONE, "", Site(), number,
            )  # fmt: skip
        return found


WORDS = {
    Place.NODE_INPUT: "gradient",
    Place.NODE_OUTPUT: "result",
    Place.BUFFER: "sum of gradients",
    Place.HOOK: "result of the hook at",
    Place.GRAD: ".grad",
    Place.SEED: "first gradient",
}
