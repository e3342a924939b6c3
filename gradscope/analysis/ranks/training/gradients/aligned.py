"""The calls of the first step of all ranks, side by side.

Ranks that run the same program make the same calls in the same order. So the k-th call of each rank
belongs together, and so do its results: if their statistics are equal on all ranks, the ranks
computed the same, and if not, each has a part or data of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gradscope.analysis.identity.sites import own_site
from gradscope.analysis.program.acts import Acts
from gradscope.analysis.program.calls import Calls
from gradscope.analysis.ranks.merging.one_rank import RankPart, parts
from gradscope.analysis.ranks.training.data.batches import BatchLook
from gradscope.analysis.ranks.training.rounds import steps_together
from gradscope.trace.schema import (
    NONE,
    BackendWork,
    Collective,
    GraphTask,
    NodeBegin,
    NodeEnd,
    Op,
    Phase,
    Place,
    ProcessGroup,
    Shard,
    Span,
    Tensor,
    Value,
)
from gradscope.trace.trace import Trace

COMPARED = ("count", "zero", "min", "max", "mean", "rms")
FIRST = 24
"""Number of steps at the start whose parameters are compared, and of as many after that."""

SIDES = (Place.NODE_INPUT, Place.NODE_OUTPUT)


@dataclass(frozen=True, slots=True)
class HeldParameter:
    """A parameter of an optimizer that has the same place on all ranks."""

    name: str
    tensors: Mapping[int, int]  # by rank
    equal: tuple[bool, ...]  # before each step of the optimizer; of many steps, before some
    grads: Mapping[int, float]  # norms of the gradient that the first step used, by rank
    optimizer: int = 0  # its number
    is_zero: bool = False  # its norm was 0 in these steps, on the first rank

    @property
    def differs(self) -> bool:
        """Whether ranks held different values from the first step on."""
        return not self.equal[0]

    @property
    def drifts(self) -> bool:
        """Whether ranks held equal values at the first step, and never again."""
        return len(self.equal) > 1 and self.equal[0] and not any(self.equal[1:])


@dataclass(frozen=True, slots=True)
class Exchanged:
    """A collective of the forward, on one rank."""

    span: int
    name: str
    begin: int
    end: int
    stack: int
    members: tuple[int, ...]
    shape: tuple[int, ...]
    norms: tuple[float, ...]  # before and after
    sums: tuple[float, ...]


class RankCalls:
    """The calls with a graph that one rank made in its first step."""

    def __init__(self, part: RankPart) -> None:
        self.rank, self.trace = part.rank, part.trace
        self.calls = part.trace.once(Calls)
        steps = [step for each in part.trace.once(Acts).optimizers for step in each.steps]
        self.until = min((step.t for step in steps), default=NONE)
        ops = self.calls.ops
        chosen = self.calls.is_forward & (ops["node"] != NONE) & (ops["begin"] < self.until)
        places = np.flatnonzero(chosen)
        order = np.lexsort((ops["id"][places], ops["begin"][places]))
        self.at: list[int] = places[order].tolist()
        self.begin: list[int] = ops["begin"][self.at].tolist() if self.at else []

    @cached_property
    def signature(self) -> tuple[tuple[str, int], ...]:
        """The names and lines of the calls."""
        stacks = (self.calls.stack(at) for at in self.at)
        return tuple(
            (self.calls.name(at), own_site(self.trace, stack).line)
            for at, stack in zip(self.at, stacks, strict=True)
        )

    @cached_property
    def number(self) -> dict[int, int]:
        """The number of each call, by its position in the table."""
        return {at: number for number, at in enumerate(self.at)}

    @cached_property
    def _looks(self) -> dict[tuple[int, int, int], BatchLook]:
        """Statistics of results by call and index, and of leaves by tensor."""
        values = self.trace.table(Value)
        place, of_op, t = values["place"], values["op"], values["t"]
        result = (place == Place.OP_OUTPUT) & (of_op != NONE)
        leaf = (place == Place.LEAF) & (values["node"] == NONE)
        rows = np.flatnonzero((result | leaf) & (t < self.until))
        columns = [values[name][rows].tolist() for name in COMPARED]
        found: dict[tuple[int, int, int], BatchLook] = {}
        for row, *numbers in zip(rows.tolist(), *columns, strict=True):
            if result[row]:
                key = int(of_op[row]), int(values["index"][row]), NONE
            else:
                key = NONE, NONE, int(values["tensor"][row])
            found.setdefault(key, BatchLook(*numbers))
        return found

    def looks_after(self, t: int) -> Iterator[BatchLook]:
        """Statistics of what was measured in this step after a time."""
        values = self.trace.table(Value)
        rows = np.flatnonzero((values["t"] >= t) & (values["t"] < self.until))
        columns = [values[name][rows].tolist() for name in COMPARED]
        return (BatchLook(*numbers) for numbers in zip(*columns, strict=True))

    def results(self, number: int) -> tuple[BatchLook, ...]:
        """Statistics of the results of a call; empty if one was not measured."""
        at = self.at[number]
        keys = [(self.calls.id(at), i, NONE) for i in range(len(self.calls.outputs(at)))]
        found = [self._looks[key] for key in keys if key in self._looks]
        return tuple(found) if len(found) == len(keys) else ()

    def leaf(self, tensor: int) -> BatchLook | None:
        """Statistics of a tensor that no call with a graph computed."""
        return self._looks.get((NONE, NONE, tensor))

    def inputs(self, number: int) -> list[int]:
        return self.calls.inputs(self.at[number])

    def outputs(self, number: int) -> list[int]:
        return self.calls.outputs(self.at[number])

    def passed_back(self, number: int) -> tuple[float, float]:
        """Norms of what the node of a call got first, and of its first result; NaN: not known."""
        sides = passed_by(self.trace, int(self.calls.ops["node"][self.at[number]]))
        into, out = (
            looks[0].rms * math.sqrt(looks[0].many) if looks else math.nan for looks in sides
        )
        return into, out

    @cached_property
    def exchanged(self) -> tuple[Exchanged, ...]:
        """Collectives that the program called in the forward, by time."""
        trace = self.trace
        tasks = [(row.begin, row.end) for row in trace.rows(GraphTask) if row.begin < self.until]
        spans = {row.id: row for row in trace.rows(Span) if row.phase == Phase.COLLECTIVE}
        works = {row.span: row for row in trace.rows(BackendWork)}
        groups = {row.id: row.members for row in trace.rows(ProcessGroup)}
        found = []
        for row in trace.rows(Collective):
            span, work = spans.get(row.span), works.get(row.span)
            if span is None or work is None or row.caller or row.holds or span.begin > self.until:
                continue
            if not any(begin <= span.begin <= end for begin, end in tasks):
                found.append(
                    Exchanged(
                        row.span, span.name, span.begin, span.end, row.stack,
                        groups.get(row.group, ()), row.shape, work.norms, work.sums,
                    )
                )  # fmt: skip
        return tuple(sorted(found, key=lambda each: each.begin))

    @cached_property
    def crossing(self) -> frozenset[int]:
        """The numbers of calls whose node called a collective in the backward."""
        ran = _nodes_with_collectives(self.trace, self.until)
        ops = self.trace.table(Op)
        nodes = ops["node"][self.at].tolist() if self.at else []
        return frozenset(number for number, node in enumerate(nodes) if node in ran)


def _nodes_with_collectives(trace: Trace, until: int) -> frozenset[int]:
    """Nodes that called a collective while they ran, before a time."""
    spans = {row.id: row for row in trace.rows(Span) if row.phase == Phase.COLLECTIVE}
    called = [
        spans[row.span].begin
        for row in trace.rows(Collective)
        if row.span in spans and not row.caller and not row.holds
    ]
    called = [begin for begin in called if begin < until]
    begins, ends = trace.table(NodeBegin), trace.table(NodeEnd)
    chosen, ended = np.flatnonzero(begins["t"] < until), np.flatnonzero(ends["t"] < until)
    chosen = chosen[np.argsort(begins["t"][chosen], kind="stable")]
    t, node = begins["t"][chosen], begins["node"][chosen]
    last: dict[int, list[int]] = {}
    for each, end in zip(ends["node"][ended].tolist(), ends["t"][ended].tolist(), strict=True):
        last.setdefault(each, []).append(end)
    found = set()
    for begin in called:
        at = int(np.searchsorted(t, begin, "right")) - 1
        if at >= 0 and any(end > begin for end in last.get(int(node[at]), ())):
            found.add(int(node[at]))
    return frozenset(found)


def passed_by(trace: Trace, node: int) -> tuple[list[BatchLook], list[BatchLook]]:
    """Statistics of the gradients that a node got, and of its results, in its first backward."""
    found: tuple[list[BatchLook], list[BatchLook]] = ([], [])
    seen = set()
    for place, index, row in trace.once(_of_nodes).get(node, ()):
        if place in SIDES and (place, index) not in seen:
            seen.add((place, index))
            found[SIDES.index(place)].append(row)
    return found


def _of_nodes(trace: Trace) -> dict[int, list[tuple[int, int, BatchLook]]]:
    """What was measured at nodes: the place, the index and the statistics."""
    values = trace.table(Value)
    rows = np.flatnonzero((values["node"] != NONE) & np.isin(values["place"], SIDES))
    columns = [values[name][rows].tolist() for name in ("node", "place", "index", *COMPARED)]
    found: dict[int, list[tuple[int, int, BatchLook]]] = {}
    for node, place, index, *numbers in zip(*columns, strict=True):
        found.setdefault(node, []).append((place, index, BatchLook(*numbers)))
    return found


class AlignedCalls:
    """The calls of all ranks, if they are the same."""

    def __init__(self, trace: Trace) -> None:
        several = [RankCalls(part) for part in trace.once(parts)]
        signatures = {each.signature for each in several}
        fit = len(several) > 1 and len(signatures) == 1 and bool(several[0].at)
        self.ranks = {each.rank: each for each in several} if fit else {}
        self.first = several[0] if several else None

    def is_equal(self, number: int) -> bool | None:
        """Whether the results of a call were equal on all ranks; None: not measured."""
        looks = {each.results(number) for each in self.ranks.values()}
        return None if () in looks else len(looks) == 1


def held_parameters(trace: Trace) -> tuple[HeldParameter, ...]:
    """The parameters of all optimizers, if optimizers are the same on all ranks."""
    every = trace.once(parts)
    optimizers = [part.trace.once(Acts).optimizers for part in every]
    if len({len(each) for each in optimizers}) != 1:
        return ()
    found: list[HeldParameter] = []
    for number, several in enumerate(zip(*optimizers, strict=True)):
        steps = [len(each.steps) for each in several]
        if len({len(each.tensors) for each in several}) != 1 or max(steps) - min(steps) > 1:
            continue  # a rank that is ended in a step, or waits in it, has one step less
        many = len(several[0].tensors)
        own = {part.rank: each.steps for part, each in zip(every, several, strict=True)}
        together = [each for each in steps_together(trace, own) if len(each) == len(every)]
        facts = [[each[part.rank].facts for each in together] for part in every]
        measured = [
            at
            for at in _few(len(together))
            if all(len(of[at].hashes) == len(of[at].grad) == many for of in facts)
        ]
        if not measured or measured[0] != 0 or _are_shards(every, several[0].tensors):
            continue
        names = dict(zip(*_names(every[0].trace), strict=True))
        for place in range(many):
            hashes = [{of[at].hashes[place] for of in facts} for at in measured]
            if any(NONE in each for each in hashes):
                continue
            found.append(
                HeldParameter(
                    names.get(several[0].tensors[place], ""),
                    {p.rank: o.tensors[place] for p, o in zip(every, several, strict=True)},
                    tuple(len(each) == 1 for each in hashes),
                    {p.rank: of[0].grad[place] for p, of in zip(every, facts, strict=True)},
                    number,
                    not any(facts[0][at].size[place] for at in measured),
                )
            )
    return tuple(found)


def _few(steps: int) -> list[int]:
    """The numbers of the first steps, and of some of those after them."""
    return [*range(min(steps, FIRST)), *range(FIRST, steps, max(1, (steps - FIRST) // FIRST))]


def _names(trace: Trace) -> tuple[list[int], list[str]]:
    table = trace.table(Tensor)
    return table["id"].tolist(), table.texts("name")


def _are_shards(every: tuple[RankPart, ...], tensors: tuple[int, ...]) -> bool:
    """Whether PyTorch divides one of these among ranks."""
    return any(row.tensor in tensors for row in every[0].trace.rows(Shard))
