"""What was in tensors, in numbers, as level `values` saw it: of results, parameters, gradients.

At level `engine` an optimizer's steps say it of parameters and their gradients, some of them.
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
"""So many times the first loss, for one that rises."""


@dataclass(frozen=True, slots=True)
class Series:
    """The gradient of a leaf, once for each step in which it was seen."""

    tensor: int
    rows: Ids  # positions in the table of values
    rms: np.ndarray
    acts: tuple[int, ...] = ()  # or the steps that say it

    def evidence(self, trace: Trace) -> Evidence:
        """Where it is said of the first step."""
        if self.acts:
            return Evidence("act", self.acts[0])
        return Evidence("value", int(trace.table(Value)["id"][self.rows[0]]))


@dataclass(frozen=True, slots=True)
class Start:
    """What a parameter was before it was trained."""

    rms: float
    alike: float  # the number that all its elements were; NaN: they differed
    many: int
    evidence: Evidence


class TensorNumbers:
    """The statistics of a trace, by what they are of."""

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
        """Where the statistics of a call's first result are; NONE: not seen."""
        ops, places = self._of_ops
        at = int(np.searchsorted(ops, op))
        return int(places[at]) if at < len(ops) and ops[at] == op else NONE

    def number(self, column: str, at: int) -> float:
        return float(self.values[column][at])

    def _starts(self) -> dict[int, int]:
        """Where the statistics of leaves that need a gradient are, as the first backward met them.

        Of a leaf that a watched call made or filled, they are those of that call's result.
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
        """The same in numbers; at level `engine` as the first steps of optimizers found them."""
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
        """Gradients as optimizers' steps found them, where these were looked at."""
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
        """What was in `.grad` when a backward had added to it, the last of each step.

        At level `engine`: what optimizers found there, in the steps that were looked at.
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


def losses_of(trace: Trace) -> list[float]:
    """What backwards began from, one after the other, where that was one number.

    Where no numbers were looked at: what the program read of them at the line that read most.
    """
    tasks, nodes, numbers = trace.table(GraphTask), trace.table(Node), trace.once(TensorNumbers)
    found: list[float] = []
    for roots in tasks.ragged("roots").tuples():
        if len(roots) == 1 and nodes.has(roots[0]):
            op = int(nodes["op"][nodes.index(roots[0])])
            value = NONE if op == NONE else numbers.of_op(op)
            if value != NONE and numbers.number("count", value) == 1:
                found.append(numbers.number("mean", value))
    reads = [act.facts for act in trace.once(Acts).of(ReadAct)]
    if found or not reads:
        return found
    most = max(reads, key=lambda facts: facts.times)
    return [*most.first, most.last]


def rises(losses: list[float]) -> bool:
    """Whether the loss is higher after the first steps than it was, and ends so."""
    finite = [loss for loss in losses if np.isfinite(loss)]
    if len(losses) < 3:
        return False
    if len(finite) < len(losses):
        return True
    return finite[0] > 0 and min(finite[1], finite[-1]) > ROSE * finite[0]
