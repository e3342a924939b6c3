"""What was measured of the gradients of one rank, parameter by parameter."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gradscope.analysis.program.acts import Acts, Done
from gradscope.analysis.ranks.auditing.together import Meetings
from gradscope.analysis.ranks.merging.one_rank import RankPart
from gradscope.trace.schema import NONE, Gathered, Node, Place, Shard, StepAct, Tensor, Value
from gradscope.trace.trace import Trace

CLOSE = 2e-3
"""Largest relative difference of sums that are the same; they are rounded."""

SEEN_FROM = 2e-3
"""Smallest sum that shows something, as a share of the norm times the root of the elements."""


@dataclass(frozen=True, slots=True)
class MeasuredGradient:
    """A parameter on one rank at one step."""

    name: str
    tensor: int
    shard: str
    norm: float
    sum: float
    size: float  # norm of the parameter
    hash: int
    arrived: float  # sum of the gradients that arrived; NaN: not known
    elements: int
    local: int | None = None  # number of elements of its part; None: not known

    @property
    def is_part(self) -> bool:
        """Whether this rank holds only a part of the parameter."""
        return "Shard" in self.shard


class MeasuredRank:
    """What one rank did."""

    def __init__(self, part: RankPart) -> None:
        self.rank, self.trace = part.rank, part.trace
        self.acts = part.trace.once(Acts)
        table = part.trace.table(Tensor)
        self._names = dict(zip(table["id"].tolist(), table.texts("name"), strict=True))
        self._shapes, self._tensors = table.ragged("shape"), table
        self._shards = {row.tensor: row.placements for row in part.trace.rows(Shard)}
        for row in part.trace.rows(Gathered):
            for parameter in row.parameters or (row.leaf,):  # a flat parameter is its own leaf
                self._shards.setdefault(parameter, "Shard(0)")
        self._local = {row.tensor: math.prod(row.local) for row in part.trace.rows(Shard)}
        self._arrivals = _arrivals(part.trace)
        self.meetings = Meetings(part.rank, part.trace)

    def measured(self, optimizer: int) -> set[int]:
        """The numbers of the steps whose gradients were measured."""
        steps = self.acts.optimizers[optimizer].steps
        return {at for at, step in enumerate(steps) if step.facts.sums or step.facts.grad}

    def has(self, optimizer: int, number: int) -> bool:
        """Whether an optimizer made this step."""
        every = self.acts.optimizers
        return optimizer < len(every) and number < len(every[optimizer].steps)

    def used(self, optimizer: int, number: int) -> list[MeasuredGradient]:
        """The parameters at a step."""
        of = self.acts.optimizers[optimizer]
        step, since = of.steps[number], of.steps[number - 1].t if number else 0
        cleared = [act.t for act in of.cleared if act.t < step.t]  # maybe after a step was skipped
        since = max(since, *cleared[-1:], 0)
        facts = step.facts
        found = []
        for at, tensor in enumerate(of.tensors):
            local = self._local.get(tensor)
            none = 0.0 if local == 0 else math.nan  # an empty part has no gradient, and needs none
            found.append(MeasuredGradient(
                self._names.get(tensor, ""), tensor, self._shards.get(tensor, ""),
                _cell(facts.grad, at, none), _cell(facts.sums, at, none), _cell(facts.size, at),
                int(_cell(facts.hashes, at, NONE)), self._arrived(tensor, since, step.t),
                self._elements(tensor), local,
            ))  # fmt: skip
        return found

    def names(self, optimizer: int) -> tuple[str, ...]:
        """The names of the parameters of an optimizer, without what wrappers put before them."""
        of = self.acts.optimizers[optimizer]
        return tuple(plain(self._names.get(tensor, "")) for tensor in of.tensors)

    def times(self, optimizer: int) -> list[int]:
        """When an optimizer made its steps."""
        return [step.t for step in self.acts.optimizers[optimizer].steps]

    @property
    def has_arrivals(self) -> bool:
        """Whether gradients that arrived at leaves were measured."""
        return bool(self._arrivals)

    def step(self, optimizer: int, number: int) -> Done[StepAct]:
        return self.acts.optimizers[optimizer].steps[number]

    def _elements(self, tensor: int) -> int:
        """Number of elements of a parameter; 0 if it has no row."""
        if not self._tensors.has(tensor):
            return 0
        first, end = self._shapes.offsets[self._tensors.index(tensor) :][:2].tolist()
        return math.prod(self._shapes.values[first:end].tolist())

    def _arrived(self, tensor: int, since: int, until: int) -> float:
        """The sum of the gradients that arrived at a parameter in a period."""
        t, sums = self._arrivals.get(tensor, (np.zeros(0), np.zeros(0)))
        within = (t > since) & (t <= until)
        return float(sums[within].sum()) if within.any() else math.nan


def _cell(cells: Sequence[float], at: int, missing: float = math.nan) -> float:
    return missing if at >= len(cells) or math.isnan(cells[at]) else cells[at]


def plain(name: str) -> str:
    """The name of a parameter without what wrappers put before it."""
    while name.startswith(("module.", "_orig_mod.", "_fsdp_wrapped_module.")):
        name = name.partition(".")[2]
    return name


def _arrivals(trace: Trace) -> Mapping[int, tuple[np.ndarray, np.ndarray]]:
    """When gradients arrived at each leaf, and the sums of their elements."""
    nodes = trace.table(Node)
    named = [name.startswith("AccumulateGrad") for name in nodes.texts("name")]
    leaves = nodes.take(np.flatnonzero(named))
    leaf = {row.id: row.inputs[0] for row in leaves if row.inputs}
    held = {row.leaf: row.parameters[0] for row in trace.rows(Gathered) if len(row.parameters) == 1}
    values = trace.table(Value)
    arrived = (values["place"] == Place.NODE_INPUT) & np.isin(values["node"], [*leaf])
    chosen = np.flatnonzero(arrived)
    found: dict[int, tuple[list[int], list[float]]] = {}
    for row in values.take(chosen):
        bad = row.nan + row.posinf + row.neginf
        own = leaf[row.node]
        t, sums = found.setdefault(held.get(own, own), ([], []))
        t.append(row.t)
        sums.append(math.nan if bad or not row.count else row.mean * row.count)
    return {tensor: (np.array(t), np.array(sums)) for tensor, (t, sums) in found.items()}


def shows(value: float, norm: float, elements: int) -> bool:
    """Whether a sum is large enough to show something."""
    return abs(value) > SEEN_FROM * norm * math.sqrt(max(elements, 1)) / 10


def is_same(value: float, wanted: float, of: MeasuredGradient) -> bool:
    room = CLOSE * abs(wanted) + 1e-6 * of.norm * math.sqrt(max(of.elements, 1))
    return abs(value - wanted) <= room


def is_near(value: float, wanted: float) -> bool:
    return abs(value - wanted) <= 3 * CLOSE * abs(wanted)


def are_close(values: set[float]) -> bool:
    return max(values) - min(values) <= CLOSE * max(abs(each) for each in values)
