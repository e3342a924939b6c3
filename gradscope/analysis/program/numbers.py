"""Statistics of results, parameters and gradients, as recorded at level `values`.

At level `engine`, some steps of optimizers contain those of parameters and gradients.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gradscope.analysis.findings import Evidence
from gradscope.analysis.lookups import Ids
from gradscope.analysis.program.acts import Acts
from gradscope.trace.schema import NONE, GraphTask, Node, Place, ReadAct, Tensor, Value
from gradscope.trace.trace import Trace

ROSE = 1.5
"""Factor of the first loss above which a loss counts as rising."""


@dataclass(frozen=True, slots=True)
class Series:
    """The gradient of a leaf, once for each step in which it was recorded."""

    tensor: int
    rows: Ids  # positions in the table of values
    rms: np.ndarray
    acts: tuple[int, ...] = ()  # or the acts of the steps that contain it

    def evidence(self, trace: Trace) -> Evidence:
        """The evidence of the first step."""
        if self.acts:
            return Evidence("act", self.acts[0])
        return Evidence("value", int(trace.table(Value)["id"][self.rows[0]]))


@dataclass(frozen=True, slots=True)
class Start:
    """A parameter before it was trained."""

    rms: float
    alike: float  # the value that all elements had; NaN: they differed
    many: int
    evidence: Evidence


class TensorNumbers:
    """The statistics of a trace, by their subject."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.values = trace.table(Value)

    @cached_property
    def _of_ops(self) -> tuple[Ids, Ids]:
        first = (self.values["place"] == Place.OP_OUTPUT) & (self.values["index"] == 0)
        places = np.flatnonzero(first)
        ops = self.values["op"][places]
        order = np.argsort(ops, kind="stable")
        return ops[order], places[order]

    def of_op(self, op: int) -> int:
        """The position of the statistics of a call's first result; NONE: not recorded."""
        ops, places = self._of_ops
        at = int(np.searchsorted(ops, op))
        return int(places[at]) if at < len(ops) and ops[at] == op else NONE

    def number(self, column: str, at: int) -> float:
        return float(self.values[column][at])

    def _starts(self) -> dict[int, int]:
        """Positions of the statistics of leaves that require grad, before the first backward ends.

        For a leaf that a recorded call created or filled, they are those of that call's result.
        """
        values, tensors, tasks = self.values, self.trace.table(Tensor), self.trace.table(GraphTask)
        if not (len(tensors) and len(values) and len(tasks)):
            return {}
        ends = np.where(tasks["end"] == NONE, np.iinfo(np.int64).max, tasks["end"])
        first = int(ends[np.argmin(tasks["begin"])])
        chosen = np.flatnonzero(
            np.isin(values["place"], (Place.LEAF, Place.OP_OUTPUT)) & (values["t"] <= first)
        )
        where = tensors.positions(values["tensor"][chosen])
        wanted = (where != NONE) & tensors["leaf"][where] & tensors["requires_grad"][where]
        chosen = chosen[wanted]
        chosen = chosen[np.argsort(values["t"][chosen], kind="stable")]
        return dict(zip(values["tensor"][chosen].tolist(), chosen.tolist(), strict=True))

    @cached_property
    def begins(self) -> dict[int, Start]:
        """Leaves before training; at level `engine`, as recorded by first steps of optimizers."""
        found = {}
        for tensor, at in self._starts().items():
            low, high = self.number("min", at), self.number("max", at)
            found[tensor] = Start(
                self.number("rms", at), low if low == high else math.nan,
                int(self.values["count"][at]), Evidence("value", int(self.values["id"][at])),
            )  # fmt: skip
        if found:
            return found
        for optimizer in self.trace.once(Acts).optimizers:
            for step in optimizer.steps[:1]:
                alike = dict(zip(step.facts.alike, step.facts.alike_to, strict=False))
                sizes = step.facts.size
                for place, (tensor, size) in enumerate(zip(optimizer.tensors, sizes, strict=False)):
                    many = self._many(tensor)
                    if many and not math.isnan(size):
                        found[tensor] = Start(
                            size / math.sqrt(many), alike.get(place, math.nan), many,
                            Evidence("act", step.id),
                        )  # fmt: skip
        return found

    def _many(self, tensor: int) -> int:
        tensors = self.trace.table(Tensor)
        if not tensors.has(tensor):
            return 0
        return math.prod(tensors.ragged("shape")[tensors.index(tensor)].tolist())

    def _of_steps(self) -> Iterator[Series]:
        """Gradients recorded by steps of optimizers."""
        for optimizer in self.trace.once(Acts).optimizers:
            looked = [step for step in optimizer.steps if step.facts.grad]
            for place, tensor in enumerate(optimizer.tensors):
                norms = [
                    (step.id, step.facts.grad[place])
                    for step in looked
                    if place < len(step.facts.grad) and not math.isnan(step.facts.grad[place])
                ]
                many = self._many(tensor)
                if norms and many:
                    rms = np.array([norm for _, norm in norms]) / math.sqrt(many)
                    yield Series(tensor, np.zeros(0, np.int64), rms, tuple(id for id, _ in norms))

    @cached_property
    def gradients(self) -> tuple[Series, ...]:
        """The contents of `.grad` after backwards, the last of each step.

        At level `engine`: as recorded by steps of optimizers.
        """
        seen = (self.values["place"] == Place.GRAD).any()
        return tuple(self._of_backwards() if seen else self._of_steps())

    def _of_backwards(self) -> Iterator[Series]:
        values, tensors = self.values, self.trace.table(Tensor)
        chosen = np.flatnonzero((values["place"] == Place.GRAD) & (values["tensor"] != NONE))
        if not (len(chosen) and len(tensors)):
            return
        chosen = chosen[tensors.positions(values["tensor"][chosen]) != NONE]
        tensor, step = values["tensor"][chosen], values["step"][chosen]
        order = np.lexsort((chosen, step, tensor))
        chosen, tensor, step = chosen[order], tensor[order], step[order]
        same = (tensor[1:] == tensor[:-1]) & (step[1:] == step[:-1])
        keep = np.append(~same, [True])[: len(chosen)]
        chosen, tensor = chosen[keep], tensor[keep]
        for rows in np.split(chosen, np.flatnonzero(np.diff(tensor)) + 1):
            if len(rows):
                yield Series(int(values["tensor"][rows[0]]), rows, values["rms"][rows])


def computed_losses(trace: Trace) -> list[tuple[int, float]]:
    """The values from which backwards began, in order, if they are single numbers.

    The call that computed each, and its result. Empty if no values were recorded.
    """
    tasks, nodes, numbers = trace.table(GraphTask), trace.table(Node), trace.once(TensorNumbers)
    found: list[tuple[int, float]] = []
    for roots in tasks.ragged("roots").tuples() if len(trace.table(Value)) else ():
        if len(roots) == 1 and nodes.has(roots[0]):
            op = int(nodes["op"][nodes.index(roots[0])])
            value = NONE if op == NONE else numbers.of_op(op)
            if value != NONE and numbers.number("count", value) == 1:
                found.append((op, numbers.number("mean", value)))
    return found


def losses_of(trace: Trace) -> list[float]:
    """The values from which backwards began, in order.

    If no values were recorded: those that the program read, at the line that read most.
    """
    found = [loss for _, loss in computed_losses(trace)]
    reads = [act.facts for act in trace.once(Acts).of(ReadAct)]
    if found or not reads:
        return found
    most = max(reads, key=lambda facts: facts.times)
    return [*most.first, most.last]


def rises(losses: list[float]) -> bool:
    """Whether the loss is higher after the first steps, and at the end."""
    finite = [loss for loss in losses if np.isfinite(loss)]
    if len(losses) < 3:
        return False
    if len(finite) < len(losses):
        return True
    return finite[0] > 0 and min(finite[1], finite[-1]) > ROSE * finite[0]
