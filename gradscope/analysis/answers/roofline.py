"""The cost of each piece of a program compared to its limit: what it computes, and what it moves.

Bytes are those of the inputs and outputs of a call or node, each counted once: the least that must
be moved. Operations are counted where shapes determine them: two for each product in a sum of
products, one for each output of a pointwise operation and for each input of a sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from statistics import median

import numpy as np

from gradscope.analysis.identity.sites import Site, own_site
from gradscope.analysis.timing.durations import node_runs, own_ns_of_calls
from gradscope.trace.schema import NONE, Accumulate, Accumulation, Edge, Node, Op, Saved, Tensor
from gradscope.trace.trace import Trace

PRODUCTS = frozenset((
    "mm", "bmm", "addmm", "baddbmm", "linear", "matmul", "mv", "addmv", "dot", "convolution",
    "conv1d", "conv2d", "conv3d", "scaled_dot_product_attention",
))  # fmt: skip
ADDS = frozenset(("addmm", "baddbmm", "addmv"))
VIEWS = frozenset((
    "t", "view", "reshape", "transpose", "permute", "expand", "squeeze", "unsqueeze", "select",
    "slice", "detach", "alias", "unbind", "split", "chunk", "narrow", "as_strided", "flatten",
    "unflatten", "_unsafe_view", "diagonal", "movedim", "_reshape_alias",
))  # fmt: skip
SUMS = frozenset(("sum", "mean", "norm", "amax", "amin", "max", "min", "var", "std", "logsumexp"))
MOVED = {Accumulation.STOLEN: 0, Accumulation.CLONED: 2}
"""How often a gradient's bytes are moved: an addition reads two arrays and writes one."""
STEPS = {"_fused_sgd_": 4, "_fused_adam_": 12, "_fused_adamw_": 12, "_fused_rmsprop_": 8}
"""Operations for each element of a parameter."""


@dataclass(frozen=True, slots=True)
class Peaks:
    """The limits of a machine."""

    flops: float  # per second
    bandwidth: float  # bytes per second
    processor: str
    threads: int
    host: str


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of all calls of one line and name, or of the runs of their nodes."""

    name: str
    site: Site
    count: int
    ns: int
    typical_ns: int  # assuming the median time of its kind: some load or compile
    bytes: int
    flops: int

    @property
    def intensity(self) -> float:
        """Operations per moved byte."""
        return self.flops / self.bytes if self.bytes else 0.0

    def limit_ns(self, peaks: Peaks) -> float:
        """The time at the machine's limit."""
        return 1e9 * max(self.flops / peaks.flops, self.bytes / peaks.bandwidth)

    def is_bound_by_memory(self, peaks: Peaks) -> bool:
        """Whether memory is its limit, not arithmetic."""
        return self.bytes / peaks.bandwidth >= self.flops / peaks.flops


@dataclass(frozen=True, slots=True)
class Roofline:
    """The costs of all pieces, the longest first."""

    peaks: Peaks
    costs: tuple[Cost, ...]
    recorded_on: str  # the host


def roofline(trace: Trace, peaks: Peaks) -> Roofline:
    """The cost of calls and nodes, by line."""
    sizes = _Sizes(trace)
    found: dict[tuple[str, Site], _Sum] = {}
    sites: dict[int, Site] = {NONE: Site()}
    for name, stack, ns, moved, flops in (*_calls(trace, sizes), *_nodes(trace, sizes)):
        if stack not in sites:
            sites[stack] = own_site(trace, stack)
        key = (name, sites[stack])
        if key not in found:
            found[key] = _Sum()
        found[key].add(ns, moved, flops)
    costs = [each.cost(name, site) for (name, site), each in found.items()]
    ordered = sorted(costs, key=lambda cost: (-cost.typical_ns, cost.name, cost.site.place))
    return Roofline(peaks, tuple(ordered), str(trace.meta.get("host", "")))


@dataclass(slots=True)
class _Sum:
    """Sums of times, bytes and operations for one name and line."""

    times: dict[tuple[int, int], list[int]] = field(default_factory=dict)  # by what each costs
    bytes: int = 0
    flops: int = 0

    def add(self, ns: int, moved: int, flops: int) -> None:
        self.times.setdefault((moved, flops), []).append(ns)
        self.bytes += moved
        self.flops += flops

    def cost(self, name: str, site: Site) -> Cost:
        alike = self.times.values()
        many, whole = sum(map(len, alike)), sum(map(sum, alike))
        typical = sum(int(median(times) * len(times)) for times in alike)
        return Cost(name, site, many, whole, typical, self.bytes, self.flops)


class _Sizes:
    """Shapes and bytes of tensors."""

    def __init__(self, trace: Trace) -> None:
        table = trace.table(Tensor)
        ids, shapes = table["id"].tolist(), table.ragged("shape").tuples()
        self.shape: dict[int, tuple[int, ...]] = dict(zip(ids, shapes, strict=True))
        self.bytes: dict[int, int] = dict(zip(ids, table["bytes"].tolist(), strict=True))

    def of(self, tensors: Sequence[int]) -> int:
        return sum(self.bytes.get(id, 0) for id in dict.fromkeys(tensors))

    def elements(self, tensor: int) -> int:
        return prod(self.shape.get(tensor, ()))


def _calls(trace: Trace, sizes: _Sizes) -> Iterator[tuple[str, int, int, int, int]]:
    """Name, stack, time, bytes and operations of each outermost call."""
    table = trace.table(Op)
    order = np.argsort(table["begin"], kind="stable")
    inputs, outputs = table.ragged("inputs").tuples(), table.ragged("outputs").tuples()
    names, stacks = trace.texts(table["name"]), table["stack"].tolist()
    begins, ends, threads = (table[each].tolist() for each in ("begin", "end", "thread"))
    took = own_ns_of_calls(trace)
    tasks = table["task"].tolist()
    until: dict[int, int] = {}
    for place in order.tolist():
        begin, end, thread = begins[place], ends[place], threads[place]
        if end == NONE or begin < until.get(thread, 0) or tasks[place] != NONE:
            continue  # its time is part of an outer call or node
        until[thread] = end
        name = names[place].partition(".")[0]
        given, made = inputs[place], outputs[place]
        moved = 0 if name in VIEWS else sizes.of(given) + sizes.of(made)
        yield name, stacks[place], took[place], moved, flops_of(name, given, made, sizes)


def flops_of(name: str, given: Sequence[int], made: Sequence[int], sizes: _Sizes) -> int:
    """The least number of arithmetic operations of a call."""
    shape = sizes.shape
    result = sum(sizes.elements(id) for id in made)
    if name in VIEWS or not given:
        return 0
    if name in STEPS:
        return STEPS[name] * sum(sizes.elements(id) for id in given) // 2
    if name == "scaled_dot_product_attention" and len(given) > 1:
        keys = shape.get(given[1], ())
        return 4 * result * (keys[-2] if len(keys) > 1 else 1)
    if name.startswith("conv"):
        given_shapes = [shape.get(id, ()) for id in given]
        return 2 * result * _taps(given_shapes, shape.get(made[0], ()) if made else ())
    if name in PRODUCTS:
        factors = [shape.get(id, ()) for id in given[name in ADDS :]]
        return 2 * result * _inner(factors, shape.get(made[0], ()) if made else ())
    if name in SUMS:
        return sum(sizes.elements(id) for id in given)
    return result


def _inner(factors: Sequence[tuple[int, ...]], made: tuple[int, ...]) -> int:
    """Number of products in each sum; 0 where the shapes do not determine it.

    For a call on PyTorch the factor that needs no gradient may be missing.
    """
    if len(factors) > 1:
        return factors[0][-1] if factors[0] else 1
    matrix = factors[0] if factors else ()
    if len(matrix) < 2 or len(made) < 2:
        return 0
    if matrix[-1] == made[-1] and matrix[-2] != made[-2]:
        return matrix[-2]
    if matrix[-2] == made[-2] and matrix[-1] != made[-1]:
        return matrix[-1]
    return 0


def _taps(given: Sequence[tuple[int, ...]], made: tuple[int, ...]) -> int:
    """Number of products in each sum of a convolution, from the shape of its weight."""
    for weight in reversed(given):
        if len(weight) > 2 and len(made) > 1 and weight[0] == made[1]:
            return prod(weight[1:])
    return 0


def _nodes(trace: Trace, sizes: _Sizes) -> Iterator[tuple[str, int, int, int, int]]:
    runs = node_runs(trace)
    table = trace.table(Node)
    of = {id: place for place, id in enumerate(table["id"].tolist())}
    names, stacks, ops = trace.texts(table["name"]), table["stack"].tolist(), table["op"].tolist()
    taken = table.ragged("inputs").tuples()
    calls = trace.table(Op)
    call_of = {id: place for place, id in enumerate(calls["id"].tolist())}
    given, made = calls.ragged("inputs").tuples(), calls.ragged("outputs").tuples()
    call_names = trace.texts(calls["name"])
    kept = _kept(trace)
    wanted = _wanted(trace)
    how = _how(trace)
    columns = (runs.node, runs.task, runs.self_ns)
    for node, task, ns in zip(*(column.tolist() for column in columns), strict=True):
        place = of.get(node)
        if ns == NONE or place is None:
            continue
        name = names[place]
        if ops[place] == NONE:
            size = sizes.of(taken[place])
            moved = MOVED.get(how.get((task, node), Accumulation.IN_PLACE), 3)
            yield name, stacks[place], ns, moved * size, (moved == 3) * size // 4
            continue
        call = call_of.get(ops[place], NONE)
        if call == NONE:
            continue
        own = call_names[call].partition(".")[0]
        outgoing = sizes.of(given[call]) if wanted.get(node, 1) else 0
        moved = sizes.of(taken[place]) + outgoing + sizes.of(kept.get(node, ()))
        forward = flops_of(own, given[call], made[call], sizes)
        if own in PRODUCTS:
            factors = wanted.get(node, 1) - (own in ADDS or own.startswith("conv"))
            forward *= max(min(factors, 2), 1)
        yield name, stacks[place], ns, 0 if own in VIEWS else moved, forward


def _kept(trace: Trace) -> Mapping[int, list[int]]:
    found: dict[int, list[int]] = {}
    table = trace.table(Saved)
    for node, tensor in zip(table["node"].tolist(), table["tensor"].tolist(), strict=True):
        found.setdefault(node, []).append(tensor)
    return found


def _wanted(trace: Trace) -> Mapping[int, int]:
    """Number of gradients of each node that another node receives."""
    edges = trace.table(Edge)
    nodes, counts = np.unique(edges["node"][edges["next"] != NONE], return_counts=True)
    return dict(zip(nodes.tolist(), counts.tolist(), strict=True))


def _how(trace: Trace) -> Mapping[tuple[int, int], Accumulation]:
    """How each gradient was accumulated at its leaf."""
    table = trace.table(Accumulate)
    columns = (table[name].tolist() for name in ("task", "node", "how"))
    return {(task, node): Accumulation(how) for task, node, how in zip(*columns, strict=True)}
